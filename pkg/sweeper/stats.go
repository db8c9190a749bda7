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
	Rows   uint64        // jobs recovered, woken for, fired or expired; locks repaired; partitions made or dropped and rows deleted
	Took   time.Duration // the last run
	LastOK time.Time     // the end of the last run without an error, local clock; zero: none yet
}

// Stats are for metrics and readiness.
type Stats struct {
	Session job.ID // this sweeper's row in sessions; zero while it has none
	// Trusted says that this sweeper may call others dead. It begins one lease after the start.
	Trusted bool
	// Busy counts locks that were not free within their 50 ms: what needed them was put off.
	Busy uint64
	// Schedules count the ticks of all schedules.
	Schedules ScheduleStats
	// Repairs counts what was wrong with locks, by kind: "reservation" (its time was over: the next in line had not
	// started, or a process that was told to end had kept the key until then), "orphan" (a lock row of a job that did not
	// hold it any more), "idle" (a key with room that nobody had passed on to a waiting job), "member" (Redis had another
	// holder than Postgres, or lacked one). All kinds are there.
	Repairs map[string]uint64
	Duties  []DutyStats // in the order of Duties, with those that are off
}

// Stats returns the counts.
func (s *Sweeper) Stats() Stats {
	st := Stats{Busy: s.busy.Load(), Schedules: s.firing.read(), Repairs: s.repairs.read()}
	st.Session, st.Trusted = s.pulse.state(time.Now())
	for _, d := range s.duties {
		st.Duties = append(st.Duties, d.read())
	}
	return st
}
