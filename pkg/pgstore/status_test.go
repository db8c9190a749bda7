package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// full sets every field that a job can be enqueued with.
func full(parent job.ID) func(*pgstore.NewJob) {
	return func(j *pgstore.NewJob) {
		j.Payload, j.Priority, j.MaxAttempts, j.ScheduledAt = []byte(`{"a": 1}`), 3, 7, time.Unix(1_700_000_000, 0)
		j.ExpiresIn, j.Timeout, j.Backoff = 2*time.Hour, 90*time.Second, "fixed 5s"
		j.Tags, j.Metadata, j.Trace, j.Parent = []string{"x", "y"}, map[string]string{"m": "n"}, "00-trace", parent
		j.Mode = job.Spawned
	}
}

func TestJobStatusTellsAllOfAJobInEveryState(t *testing.T) {
	t.Parallel()
	b := open(t)
	parent := b.ids.New()
	for _, kept := range []bool{false, true} {
		for _, state := range []job.State{job.Available, job.Scheduled, job.Running, job.Retrying, job.Completed, job.Discarded, job.Cancelled, job.Expired} {
			b.empty()
			s := b.session()
			sub := subject{id: b.enqueue(1, full(parent))[0], session: s}
			b.bring(&sub, state)
			if kept {
				b.keep(sub.id)
			}
			r := b.job(sub.id)
			name := fmt.Sprintf("%s (log row in jobs_kept: %v)", state, kept)
			if r.State != state || r.Kind != "k" || r.Queue != "q" || r.Priority != 3 || r.MaxAttempts != 7 ||
				string(r.Payload) != `{"a": 1}` || r.Timeout != 90*time.Second || r.Backoff != job.Fixed(5*time.Second) ||
				fmt.Sprint(r.Tags) != "[x y]" || fmt.Sprint(r.Metadata) != "map[m:n]" || r.Trace != "00-trace" || r.ParentID != parent || r.Mode != job.Spawned ||
				r.EnqueuedAt.IsZero() || !r.ScheduledAt.Equal(time.Unix(1_700_000_000, 0)) || r.ExpiresAt.IsZero() {
				t.Errorf("%s: got %+v", name, r)
			}
			b.checkProgress(t, name, r, s)
		}
	}
}

// bring takes a fresh job to a state.
func (b *bench) bring(s *subject, state job.State) {
	b.t.Helper()
	switch state {
	case job.Scheduled:
		b.exec("UPDATE weir.live SET ready_at = clock_timestamp() + interval '1 h'")
	case job.Cancelled:
		b.cancel(s.id)
	case job.Expired:
		b.expire(s.id)
	case job.Running, job.Retrying, job.Completed, job.Discarded:
		s.row = b.claim(s.session, 1)[0]
	}
	switch state {
	case job.Retrying:
		b.retry(*s, time.Hour, false)
	case job.Completed:
		done := completionsOf(s.row)
		done[0].Result = []byte(`{"r": 2}`)
		_, err := b.store.Finish(b.ctx, s.session, done)
		b.must(err)
	case job.Discarded:
		b.bury(*s, job.DeadDiscarded)
	}
}

// checkProgress checks what depends on the state.
func (b *bench) checkProgress(t *testing.T, name string, r job.Row, session job.ID) {
	t.Helper()
	ran := r.State == job.Running || r.State == job.Completed || r.State == job.Discarded
	if ran != (r.Session == session) || ran == r.ClaimedAt.IsZero() {
		t.Errorf("%s: session %s, claimed %s", name, r.Session, r.ClaimedAt)
	}
	if want := ran || r.State == job.Retrying; want != (r.Attempt == 1) {
		t.Errorf("%s: attempt %d", name, r.Attempt)
	}
	if r.State.Final() == r.FinishedAt.IsZero() || r.State.Final() != r.ReadyAt.IsZero() {
		t.Errorf("%s: due %s, finished %s", name, r.ReadyAt, r.FinishedAt)
	}
	if (string(r.Result) == `{"r": 2}`) != (r.State == job.Completed) {
		t.Errorf("%s: result %q", name, r.Result)
	}
	if n := len(r.Attempts); (n == 1) != (r.State == job.Retrying || r.State == job.Discarded) {
		t.Errorf("%s: %d attempts", name, n)
	}
	if (r.Error != "") != (r.State == job.Cancelled || r.State == job.Expired) {
		t.Errorf("%s: error %q", name, r.Error)
	}
}

// The tables refuse by themselves what would harm others, whoever writes.
func TestTheTablesRefuseWhatWouldHarmOthers(t *testing.T) {
	t.Parallel()
	b := open(t)
	for name, edit := range map[string]func(*pgstore.NewJob){
		"a priority below 1":  func(j *pgstore.NewJob) { j.Priority = 0 },
		"a priority above 9":  func(j *pgstore.NewJob) { j.Priority = 10 },
		"a long queue":        func(j *pgstore.NewJob) { j.Queue = fmt.Sprintf("%0129d", 1) },
		"a long kind":         func(j *pgstore.NewJob) { j.Kind = fmt.Sprintf("%0129d", 1) },
		"a long backoff":      func(j *pgstore.NewJob) { j.Backoff = fmt.Sprintf("%065d", 1) },
		"a long trace":        func(j *pgstore.NewJob) { j.Trace = fmt.Sprintf("%0513d", 1) },
		"a payload over 1 MB": func(j *pgstore.NewJob) { j.Payload = fmt.Appendf(nil, "%01048577d", 1) },
		"no JSON":             func(j *pgstore.NewJob) { j.Payload = []byte("{") },
	} {
		for _, known := range []bool{false, true} {
			j := b.newJob(edit, func(j *pgstore.NewJob) { j.Known = known })
			if _, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j}); err == nil || !pgstore.IsData(err) {
				t.Errorf("%s (known %v): got %v, want an error about the data", name, known, err)
			}
		}
	}
	s := b.session()
	done := completionsOf(b.claimed(s, 1)...)
	done[0].Result = fmt.Appendf(nil, "\"%065535d\"", 1)
	if _, err := b.store.Finish(b.ctx, s, done); err == nil || !pgstore.IsData(err) {
		t.Errorf("a result over 64 KiB: got %v", err)
	}
}
