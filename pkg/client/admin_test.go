package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// session opens a session that can claim.
func (r rig) session(tb testing.TB) job.ID {
	tb.Helper()
	id := r.IDs().New()
	_, err := r.Store().OpenSession(tb.Context(), pgstore.Session{ID: id, Role: "worker", Lease: time.Minute, Host: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// claim makes all due jobs of a queue and kind run in session.
func (r rig) claim(tb testing.TB, session job.ID, queue, kind string) []job.Row {
	tb.Helper()
	got, err := r.Store().Claim(tb.Context(), pgstore.ClaimRequest{
		Session: session, Queues: []pgstore.ClaimQueue{{Name: queue, Slots: 1000}}, Kinds: []string{kind},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return got.Jobs
}

// complete finishes a job that session runs.
func (r rig) complete(tb testing.TB, session job.ID, row job.Row, result string) {
	tb.Helper()
	done, err := r.Store().Finish(tb.Context(), session, []pgstore.Completion{{
		Held: pgstore.Held{ID: row.ID, Fence: row.Fence}, Result: []byte(result),
	}})
	if err != nil || !done[row.ID] {
		tb.Fatalf("finish: %v, %v", done, err)
	}
}

func (r rig) state(tb testing.TB, id job.ID) job.State {
	tb.Helper()
	row, err := r.Job(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	return row.State
}

func TestCancelEndsWhatWaitsAndAsksWhatRuns(t *testing.T) {
	t.Parallel()
	c := open(t)
	session := c.session(t)
	running := c.enqueue(t, welcome{})
	c.claim(t, session, "default", "mail.welcome")
	waiting := c.enqueue(t, welcome{})
	ended := c.enqueue(t, welcome{})
	if err := c.Cancel(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	unknown := idAt(time.Now())
	err := c.Cancel(t.Context(), running, waiting, unknown, ended)
	if !errors.Is(err, client.ErrNotFound) || !strings.Contains(err.Error(), unknown.String()) {
		t.Errorf("got %v", err)
	}
	if got := c.state(t, waiting); got != job.Cancelled {
		t.Errorf("the waiting job is %s", got)
	}
	if got := c.state(t, running); got != job.Running {
		t.Errorf("the running job is %s", got)
	}
	if n := c.count(t, "live", "flags & 4 <> 0 AND id = $1", running); n != 1 {
		t.Error("the running job was not asked to stop")
	}
	if err := c.Cancel(t.Context(), ended); err != nil {
		t.Errorf("a job that has ended: got %v", err)
	}
	if err := c.Cancel(t.Context()); err != nil {
		t.Errorf("no ids: got %v", err)
	}
}

func TestRetryMakesAJobDueNow(t *testing.T) {
	t.Parallel()
	c := open(t)
	session := c.session(t)
	dead, later := c.enqueue(t, welcome{UserID: 5}), c.enqueue(t, welcome{}, job.Options{Delay: time.Hour})
	if err := c.Cancel(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	h := listen(c)
	for _, id := range []job.ID{dead, later} {
		if err := c.Retry(t.Context(), id); err != nil {
			t.Error(err)
		}
		if got := c.state(t, id); got != job.Available {
			t.Errorf("state %s", got)
		}
		if err := c.Retry(t.Context(), id); err != nil {
			t.Errorf("a job that is due: got %v", err)
		}
	}
	if hints := h.all(); len(hints) != 2 || hints[0].Queue != "default" || hints[0].Kind != "mail.welcome" || hints[0].ReadyAt.IsZero() {
		t.Errorf("hints %+v", hints)
	}
	rows := c.claim(t, session, "default", "mail.welcome")
	if len(rows) != 2 {
		t.Fatalf("claimed %d", len(rows))
	}
	var state *client.StateError
	if err := c.Retry(t.Context(), dead); !errors.As(err, &state) || state.State != job.Running || state.ID != dead {
		t.Errorf("a running job: got %v", err)
	}
	if err := c.Delete(t.Context(), dead); !errors.As(err, &state) || state.State != job.Running {
		t.Errorf("delete a running job: got %v", err)
	}
	c.complete(t, session, rows[0], "")
	if err := c.Retry(t.Context(), rows[0].ID); !errors.As(err, &state) || state.State != job.Completed {
		t.Errorf("a completed job: got %v", err)
	}
	if err := c.Retry(t.Context(), idAt(time.Now())); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown job: got %v", err)
	}
}

func TestADeletedJobIsGone(t *testing.T) {
	t.Parallel()
	c := open(t)
	id := c.enqueue(t, welcome{})
	if err := c.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Job(t.Context(), id); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := c.Delete(t.Context(), id); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("again: got %v", err)
	}
	if n := c.count(t, "jobs", "true"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestManyAreActedOnInBatches(t *testing.T) {
	t.Parallel()
	c := open(t)
	jobs := make([]job.Spec, 1200)
	for i := range jobs {
		jobs[i] = job.Spec{Args: welcome{}, Options: job.Options{Queue: "mail"}}
	}
	if _, err := c.EnqueueMany(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	other := c.enqueue(t, welcome{})
	filter := client.Filter{Queue: "mail"}
	if n, err := c.CancelMany(t.Context(), filter); n != 1200 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
	if n, err := c.CancelMany(t.Context(), filter); n != 0 || err != nil {
		t.Errorf("cancelled %d again, %v", n, err)
	}
	if n, err := c.RetryMany(t.Context(), client.Filter{Queue: "mail", State: job.Cancelled}); n != 1200 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
	if n, err := c.DeleteMany(t.Context(), filter); n != 1200 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if got := c.state(t, other); got != job.Available {
		t.Errorf("a job of another queue is %s", got)
	}
	for name, call := range map[string]func() (int, error){
		"cancel": func() (int, error) { return c.CancelMany(t.Context(), client.Filter{}) },
		"retry":  func() (int, error) { return c.RetryMany(t.Context(), client.Filter{}) },
		"delete": func() (int, error) { return c.DeleteMany(t.Context(), client.Filter{}) },
	} {
		var field *job.FieldError
		if n, err := call(); n != 0 || !errors.As(err, &field) {
			t.Errorf("%s everything: got %d, %v", name, n, err)
		}
	}
}

func TestAnInterruptedActionGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	c := open(t)
	jobs := make([]job.Spec, 1100)
	for i := range jobs {
		jobs[i] = job.Spec{Args: welcome{}, Options: job.Options{Queue: "mail"}}
	}
	got, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.CancelMany(t.Context(), client.Filter{Queue: "mail"}); n != 1100 || err != nil {
		t.Fatalf("cancelled %d, %v", n, err)
	}
	c.exec(t, `CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not here'; END $$`)
	c.exec(t, `CREATE TRIGGER refuse BEFORE INSERT ON %[1]s.live FOR EACH ROW WHEN (new.id = '`+got[300].ID.UUID()+`') EXECUTE FUNCTION %[1]s.refuse()`)
	filter := client.Filter{Queue: "mail", State: job.Cancelled}
	var stopped *client.BatchError
	n, err := c.RetryMany(t.Context(), filter)
	if n != 500 || !errors.As(err, &stopped) || stopped.Done != 500 || stopped.Before != got[600].ID {
		t.Fatalf("retried %d, %v: want the newest 500, and to go on before %s", n, err, got[600].ID)
	}
	c.exec(t, `DROP TRIGGER refuse ON %[1]s.live`)
	filter.Before = stopped.Before
	if n, err := c.RetryMany(t.Context(), filter); n != 600 || err != nil {
		t.Errorf("retried %d more, %v", n, err)
	}
	var field *job.FieldError
	if _, err := c.DeleteMany(t.Context(), client.Filter{Before: stopped.Before}); !errors.As(err, &field) {
		t.Errorf("Before alone: %v, want a FieldError", err)
	}
}

func TestRetryManyLeavesScheduledJobsAlone(t *testing.T) {
	t.Parallel()
	c := open(t)
	id := c.enqueue(t, welcome{}, job.Options{Delay: time.Hour})
	if n, err := c.RetryMany(t.Context(), client.Filter{Kind: "mail.welcome"}); n != 0 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
	if got := c.state(t, id); got != job.Scheduled {
		t.Errorf("state %s", got)
	}
	if n, err := c.RetryMany(t.Context(), client.Filter{State: job.Scheduled}); n != 1 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
}

func TestAPausedQueueOrKindIsNotClaimed(t *testing.T) {
	t.Parallel()
	c := open(t)
	session := c.session(t)
	for _, target := range []client.Target{client.Queue("default"), client.Kind("mail.welcome")} {
		id := c.enqueue(t, welcome{})
		if err := c.Pause(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		if err := c.Pause(t.Context(), target); err != nil {
			t.Errorf("again: %v", err)
		}
		if rows := c.claim(t, session, "default", "mail.welcome"); len(rows) != 0 {
			t.Errorf("%v: claimed %d jobs", target, len(rows))
		}
		if err := c.Resume(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		rows := c.claim(t, session, "default", "mail.welcome")
		if len(rows) != 1 || rows[0].ID != id {
			t.Errorf("%v: claimed %d jobs after the pause", target, len(rows))
		}
	}
	for _, target := range []client.Target{{}, client.Queue(""), client.Kind("a b")} {
		var field *job.FieldError
		if err := c.Pause(t.Context(), target); !errors.As(err, &field) {
			t.Errorf("%+v: got %v", target, err)
		}
	}
}

func TestWhatIsDoneByHandIsWrittenDown(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *client.Config) { cfg.Actor = "alice@desk" })
	id, other := c.enqueue(t, welcome{}), c.enqueue(t, welcome{})
	for _, err := range []error{
		c.Pause(t.Context(), client.Queue("mail")), c.Resume(t.Context(), client.Queue("mail")),
		c.Cancel(t.Context(), id), c.Retry(t.Context(), id), c.Delete(t.Context(), id),
		c.Pause(t.Context(), client.Kind("mail.welcome")), c.Cancel(t.Context(), other, id),
	} {
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			t.Fatal(err)
		}
	}
	rows, err := c.pool.Query(t.Context(), fmt.Sprintf("SELECT who || ' ' || verb || ' ' || target || ' ' || rows FROM %s.actions ORDER BY at", c.namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	want := []string{
		"alice@desk pause queue mail 1", "alice@desk resume queue mail 1",
		"alice@desk cancel job " + id.String() + " 1", "alice@desk retry job " + id.String() + " 1",
		"alice@desk delete job " + id.String() + " 1", "alice@desk pause kind mail.welcome 1", "alice@desk cancel 2 jobs 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	row, err := c.Job(t.Context(), other)
	if err != nil || row.Error != "cancelled by alice@desk" {
		t.Errorf("got %q, %v", row.Error, err)
	}
}
