package sweeper

import (
	"time"

	"github.com/weirq/weir/pkg/job"
)

// DutyStats are counts of one duty since New.
type DutyStats struct {
	Name   string
	Every  time.Duration // between two runs
	Runs   uint64
	Errors uint64        // runs that ended with an error
	Rows   uint64        // jobs recovered, woken for or expired; partitions made or dropped and rows deleted
	Took   time.Duration // the last run
	LastOK time.Time     // the end of the last run without an error, local clock; zero: none yet
}

// Stats are for metrics and readiness.
type Stats struct {
	Session job.ID // this sweeper's row in sessions; zero while it has none
	// Trusted says that this sweeper may call others dead. It begins one lease after the start.
	Trusted bool
	// Busy counts locks that were not free within their 50 ms: what needed them was put off.
	Busy   uint64
	Duties []DutyStats // in the order of Duties, with those that are off
}

// Stats returns the counts.
func (s *Sweeper) Stats() Stats {
	st := Stats{Busy: s.busy.Load()}
	st.Session, st.Trusted = s.pulse.state(time.Now())
	for _, d := range s.duties {
		st.Duties = append(st.Duties, d.read())
	}
	return st
}
