package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// said returns what a job's handler last said.
func (r *rig) said(id job.ID) job.Progress {
	r.t.Helper()
	p, _, err := r.Client.Progress(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func TestProgressIsSeenWhileTheJobRunsAndKeptWithIt(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		on := make(chan struct{})
		r.start(func(_ context.Context, j *worker.Job[task]) error {
			for n := range 1000 { // costs nothing: the last value is what is shown
				j.Progress(n/10, "page")
			}
			j.Progress(50, "page 3/9")
			<-on
			j.Progress(250, strings.Repeat("x", 1000))
			return nil
		})
		id := r.add(task{})
		if r.Client.Bus().Enabled() {
			testenv.Eventually(t, soon, func() bool { p := r.said(id); return p.Percent == 50 && p.Note == "page 3/9" }, "progress is not seen")
		}
		close(on)
		r.reaches(id, job.Completed)
		if p := r.said(id); p.Percent != 100 || len(p.Note) > job.MaxNoteBytes || p.At.IsZero() {
			t.Errorf("after the end it says %+v", p)
		}
		if n := r.count("SELECT count(*) FROM %s.reports"); n != 1 {
			t.Errorf("%d rows for one job with 1,002 calls", n)
		}
	})
}

func TestACheckpointReachesTheNextAttempt(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		found := make(chan int, 3)
		r.start(func(ctx context.Context, j *worker.Job[task]) error {
			var at int
			ok, err := j.LoadCheckpoint(ctx, &at)
			if err != nil || ok != (j.Attempt > 1) {
				t.Errorf("attempt %d: found %v, %v", j.Attempt, ok, err)
			}
			found <- at
			for n := range 10 { // the last one counts, though they come faster than they are written
				if err := j.Checkpoint(at + n); err != nil {
					t.Error(err)
				}
			}
			if j.Attempt < 3 {
				return errors.New("not done")
			}
			return nil
		})
		r.reaches(r.add(task{}, job.Options{Backoff: job.Fixed(time.Millisecond)}), job.Completed)
		for _, want := range []int{0, 9, 18} {
			if at := receive(t, found, "attempt"); at != want {
				t.Errorf("it went on from %d, want %d", at, want)
			}
		}
	})
}

func TestACheckpointIsWrittenAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	g := newGate()
	r.exec("CREATE SEQUENCE %s.writes")
	r.exec(`CREATE FUNCTION %[1]s.counted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM nextval(''%[1]s.writes''); RETURN NEW; END'`)
	r.exec("CREATE TRIGGER counted BEFORE INSERT ON %[1]s.reports FOR EACH ROW EXECUTE FUNCTION %[1]s.counted()")
	begun := time.Now()
	r.start(func(ctx context.Context, j *worker.Job[task]) error {
		for n := 0; time.Since(begun) < 1500*time.Millisecond; n++ {
			if err := j.Checkpoint(n); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond) // the pace of a handler
		}
		return g.handle(ctx, j)
	})
	id := r.add(task{})
	receive(t, g.started, "end of its work")
	close(g.free)
	r.reaches(id, job.Completed)
	if n := r.count("SELECT last_value FROM %s.writes"); n > int(time.Since(begun)/time.Second)+2 {
		t.Errorf("%d writes in %v", n, time.Since(begun))
	}
}

func TestACheckpointOfAnAttemptThatWasGivenAwayIsRefused(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	ended := make(chan struct{})
	u := r.start(func(_ context.Context, j *worker.Job[task]) error {
		defer close(ended)
		r.exec("UPDATE %s.live SET fence = fence + 1 WHERE id = $1", j.ID)
		j.Progress(10, "too late")
		return j.Checkpoint("too late")
	})
	r.add(task{})
	receive(t, ended, "end")
	r.await("the result, which comes after the last report, was refused", func() bool { return u.Stats().Refused == 1 })
	if n := r.count("SELECT count(*) FROM %s.reports"); n != 0 {
		t.Error("it was written")
	}
}

func TestACheckpointThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	r := setup(t, "none")
	errs := make(chan error, 1)
	r.start(func(_ context.Context, j *worker.Job[task]) error {
		errs <- j.Checkpoint(strings.Repeat("x", job.MaxCheckpointBytes))
		return nil
	})
	r.add(task{})
	var field *job.FieldError
	if err := receive(t, errs, "answer"); !errors.As(err, &field) || field.Field != "checkpoint" {
		t.Errorf("error %v", err)
	}
}
