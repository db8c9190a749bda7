package sweeper

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Event is what the sweeper did to a job.
type Event struct {
	What    job.Event // job.Recover or job.Expire
	ID      job.ID
	Kind    string
	Queue   string
	State   job.State // what it is now: recovered jobs Available, Discarded (third crash) or Cancelled; others Expired
	Attempt int       // attempts used, the interrupted one not counted; 0 of an expired job
	Crashes int       // processes that died while they ran it
	Session job.ID    // the process that died
	Due     time.Time // when it can start again, on the database clock; zero if it has ended
	Failure job.ID    // the failure job that was added for it (job.Options.OnDiscard)
	Err     error     // a failure job was wanted and could not be added
}

// recovered tells of jobs that were taken from dead processes.
func (s *Sweeper) recovered(jobs []pgstore.Recovered) {
	for _, r := range jobs {
		attrs := []any{"id", r.ID, "kind", r.Kind, "queue", r.Queue, "session", r.Session, "crashes", r.Crashes}
		switch r.State {
		case job.Available:
			s.log.Warn("job recovered: its process died", append(attrs, "due", r.Due)...)
		default:
			s.log.Error("job ended: its process died", append(attrs, "state", r.State)...)
		}
		var err error
		if f := r.Failure; f.Kind != "" && f.ID.IsZero() {
			err = fmt.Errorf("failure job %s not added: %s", f.Kind, f.Refused)
			s.log.Error("failure job not added", append(attrs, "failure kind", f.Kind, "reason", f.Refused)...)
		}
		s.emit(Event{
			Failure: r.Failure.ID, Err: err,
			What: job.Recover, ID: r.ID, Kind: r.Kind, Queue: r.Queue, State: r.State, Attempt: r.Attempt,
			Crashes: r.Crashes, Session: r.Session, Due: r.Due,
		})
	}
}

// expired tells of jobs that could not start in time.
func (s *Sweeper) expired(jobs []pgstore.Ended) {
	for _, e := range jobs {
		s.log.Info("job expired", "id", e.ID, "kind", e.Kind, "queue", e.Queue)
		s.emit(Event{What: job.Expire, ID: e.ID, Kind: e.Kind, Queue: e.Queue, State: job.Expired})
	}
}

// emit calls OnEvent and survives its panic: what it is told has been committed and must be told of all.
func (s *Sweeper) emit(e Event) {
	if s.cfg.OnEvent == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("OnEvent panicked", "id", e.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	s.cfg.OnEvent(e)
}
