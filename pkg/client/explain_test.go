package client_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

func TestAJobIsExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, c rig) job.ID
		want    []client.Reason
	}{
		"no worker": {func(t *testing.T, c rig) job.ID { return c.enqueue(t, welcome{}) }, []client.Reason{client.WhyNoWorker}},
		"unknown kind": {func(t *testing.T, c rig) job.ID {
			c.process(t)
			return c.enqueue(t, job.Raw{Name: "other"})
		}, []client.Reason{client.WhyUnknownKind}},
		"about to start": {func(t *testing.T, c rig) job.ID {
			c.process(t)
			return c.enqueue(t, welcome{})
		}, []client.Reason{client.WhyAboutToStart}},
		"waits its turn": {func(t *testing.T, c rig) job.ID {
			c.process(t)
			c.enqueue(t, welcome{})
			return c.enqueue(t, welcome{})
		}, []client.Reason{client.WhyTurn}},
		"paused, scheduled, and nobody there": {func(t *testing.T, c rig) job.ID {
			for _, target := range []client.Target{client.Queue("default"), client.Kind("mail.welcome")} {
				if err := c.Pause(t.Context(), target); err != nil {
					t.Fatal(err)
				}
			}
			return c.enqueue(t, welcome{}, job.Options{Delay: time.Hour})
		}, []client.Reason{client.WhyQueuePaused, client.WhyKindPaused, client.WhyScheduled, client.WhyNoWorker}},
		"running": {func(t *testing.T, c rig) job.ID {
			p := c.process(t)
			id := c.enqueue(t, welcome{})
			p.start(1)
			return id
		}, []client.Reason{client.WhyRuns}},
		"asked to stop": {func(t *testing.T, c rig) job.ID {
			p := c.process(t)
			id := c.enqueue(t, welcome{})
			p.start(1)
			if err := c.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return id
		}, []client.Reason{client.WhyRuns, client.WhyCancelAsked}},
		"ended": {func(t *testing.T, c rig) job.ID {
			id := c.enqueue(t, welcome{})
			if err := c.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return id
		}, []client.Reason{client.WhyEnded}},
		"throttled": {func(t *testing.T, c rig) job.ID {
			c.process(t)
			id := c.enqueue(t, welcome{}, job.Options{Keys: []job.Key{job.Rate("stripe", 1, time.Second)}})
			c.exec(t, "UPDATE %s.live SET ready_at = ready_at + interval '30 s'")
			return id
		}, []client.Reason{client.WhyRate}},
		"retrying": {func(t *testing.T, c rig) job.ID {
			p := c.process(t)
			id := c.enqueue(t, welcome{})
			p.start(1)
			row, err := c.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Store().Retry(t.Context(), p.id, []pgstore.Failure{{Held: pgstore.Held{ID: id, Fence: row.Fence}, Wait: time.Hour, Outcome: "failed"}}); err != nil {
				t.Fatal(err)
			}
			return id
		}, []client.Reason{client.WhyRetrying}},
		"a full queue": {func(t *testing.T, c rig) job.ID {
			p := c.process(t)
			c.enqueue(t, welcome{})
			p.start(1)
			if err := c.SetQueueLimit(t.Context(), client.QueueLimit{Name: "default", N: 1}, false); err != nil {
				t.Fatal(err)
			}
			return c.enqueue(t, welcome{})
		}, []client.Reason{client.WhyQueueLimit}},
		"blocked": {func(t *testing.T, c rig) job.ID {
			p := c.process(t)
			ids := c.keyed(t, 2, job.Mutex("k"))
			p.start(9)
			return ids[1]
		}, []client.Reason{client.WhyBlocked}},
		"next in line": {func(t *testing.T, c rig) job.ID {
			p := c.process(t)
			ids := c.keyed(t, 2, job.Mutex("k"))
			p.start(9)
			if err := c.SetLimit(t.Context(), client.Limit{Key: "k", N: 2}, false); err != nil {
				t.Fatal(err)
			}
			return ids[1]
		}, []client.Reason{client.WhyNextInLine}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			id := c.prepare(t, r)
			x, err := r.Explain(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(x.Why, c.want) || x.Job.ID != id || x.Now.IsZero() || len(x.Job.Payload) != 0 {
				t.Errorf("got %q, want %q (%+v)", x.Why, c.want, x)
			}
		})
	}
}

func TestABlockedJobIsToldWhoHasItsKeyAndWhenItIsItsTurn(t *testing.T) {
	t.Parallel()
	c := open(t)
	p := c.process(t)
	rate := job.Rate("stripe", 100, time.Second).Weight(3)
	first := c.keyed(t, 1, job.Mutex("account:42"))[0]
	p.start(9)
	// It completes after 12 s by the stored times: what the estimate is made of.
	row, err := c.Job(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	c.exec(t, "UPDATE %s.live SET claimed_at = claimed_at - interval '12 s'")
	done := []pgstore.Completion{{Held: pgstore.Held{ID: first, Fence: row.Fence}}}
	if _, err := c.Store().FinishKeyed(t.Context(), p.id, done, pgstore.Serves{}); err != nil {
		t.Fatal(err)
	}
	ids := c.keyed(t, 4, job.Mutex("account:42"), job.Mutex("zzz"), rate)
	if got := p.start(9); !slices.Equal(got, ids[:1]) {
		t.Fatalf("%v started, want %v", got, ids[:1])
	}
	x, err := c.Explain(t.Context(), ids[2])
	if err != nil || len(x.Locks) != 2 || len(x.Rates) != 1 || x.Serve != 1 || x.Know != 1 || x.Both != 1 {
		t.Fatalf("got %+v, %v", x, err)
	}
	l := x.Locks[0]
	if !l.Blocks || l.Held || l.Name != "account:42" || l.Limit != 1 || l.Entry != nil || l.Place != 2 || l.Waiting != 3 || len(l.Line) != 3 || l.Redis != client.RedisOff {
		t.Errorf("the lock: got %+v", l)
	}
	if l.Of != 1 || l.Took < 12*time.Second || l.Took > 20*time.Second || l.Wait != 2*l.Took {
		t.Errorf("the estimate: got %v by %d, %v to go, want 12s by 1, twice that", l.Took, l.Of, l.Wait)
	}
	h := l.Holders[0]
	if h.ID != ids[0] || h.Kind != "mail.welcome" || h.Host != "web-7" || h.PID != 4711 || h.Session != p.id || h.Kept || h.Lease < 30*time.Second || h.Since < 0 {
		t.Errorf("the holder: got %+v", h)
	}
	if other := x.Locks[1]; other.Blocks || other.Name != "zzz" || len(other.Holders) != 1 || other.Place != 2 {
		t.Errorf("the other lock: got %+v", other)
	}
	if r := x.Rates[0]; r.N != 100 || r.Per != time.Second || r.Weight != 3 || r.Held != 0 || r.Entry != nil {
		t.Errorf("the rate: got %+v", r)
	}
	if err := c.SetLimit(t.Context(), client.Limit{Key: "str", Prefix: true, Rate: true, N: 5, Per: time.Minute}, false); err != nil {
		t.Fatal(err)
	}
	c.exec(t, "INSERT INTO %s.rate_holds (key, until) VALUES ('stripe', clock_timestamp() + interval '1 min')")
	x, err = c.Explain(t.Context(), ids[2])
	if r := x.Rates[0]; err != nil || r.N != 5 || r.Per != time.Minute || r.Entry == nil || !r.Entry.Prefix || r.Held < 50*time.Second {
		t.Errorf("a closed rate: got %+v, %v", r, err)
	}
}

func TestKeysAreShownWithTheirHoldersAndLines(t *testing.T) {
	t.Parallel()
	c := open(t)
	p := c.process(t)
	long := c.keyed(t, 30, job.Limit("a b\n", 2))
	c.keyed(t, 2, job.Mutex("quick"))
	p.start(40)
	keys, err := c.Keys(t.Context(), "", 10)
	want := []client.KeyInfo{{Key: "a b\n", Running: 2, Waiting: 28}, {Key: "quick", Running: 1, Waiting: 1}}
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("got %+v, %v, want %+v", keys, err, want)
	}
	if keys, err = c.Keys(t.Context(), "q", 10); err != nil || !slices.Equal(keys, want[1:]) {
		t.Errorf("by prefix: got %+v, %v, want %+v", keys, err, want[1:])
	}
	if err := c.SetLimit(t.Context(), client.Limit{Key: "a b\n", N: 3}, false); err != nil {
		t.Fatal(err)
	}
	d, err := c.Key(t.Context(), "a b\n")
	if err != nil || d.Limit != 3 || d.Entry == nil || len(d.Holders) != 3 || d.Waiting != 27 || len(d.Line) != 20 || d.Rate != nil {
		t.Fatalf("got %+v, %v", d, err)
	}
	if h := d.Holders[2]; !h.Kept || h.Left <= 0 || h.ID != long[2] || !h.Session.IsZero() {
		t.Errorf("the next in line: got %+v", h)
	}
	if w := d.Line[0]; w.ID != long[3] || w.Kind != "mail.welcome" || w.Waits <= 0 {
		t.Errorf("the line: got %+v", w)
	}
	if d, err := c.Key(t.Context(), "nobody's"); err != nil || d.Limit != 0 || len(d.Holders)+d.Waiting != 0 {
		t.Errorf("a key that nobody has: got %+v, %v", d, err)
	}
	var field *job.FieldError
	_, err = c.Key(t.Context(), "")
	_, other := c.Keys(t.Context(), "", 0)
	if !errors.As(err, &field) || !errors.As(other, &field) {
		t.Errorf("got %v and %v, want a *job.FieldError each", err, other)
	}
}

func TestAQueueIsExplained(t *testing.T) {
	t.Parallel()
	c := open(t)
	want := func(reasons ...client.Reason) client.QueueExplanation {
		t.Helper()
		c.exec(t, "DELETE FROM %s.counts") // those of a moment ago would be taken
		x, err := c.ExplainQueue(t.Context(), "default")
		if err != nil || !slices.Equal(x.Why, reasons) {
			t.Errorf("got %q, %v, want %q", x.Why, err, reasons)
		}
		return x
	}
	want(client.WhyNoWorker, client.WhyNoJobs)
	c.enqueue(t, job.Raw{Name: "other"})
	want(client.WhyNoWorker)
	p := c.process(t)
	want(client.WhyUnknownKind)
	c.enqueue(t, welcome{})
	x := want(client.WhyFlows)
	if len(x.Workers) != 1 || len(x.Kinds) != 2 || x.Kinds[0].Due != 1 || x.Kinds[0].Workers+x.Kinds[1].Workers != 1 || x.Depth.Ready != 2 {
		t.Errorf("got %+v", x)
	}
	p.start(1)
	c.keyed(t, 3, job.Mutex("k"))
	p.start(9)
	if err := c.SetQueueLimit(t.Context(), client.QueueLimit{Name: "default", N: 2}, false); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(t.Context(), client.Queue("default")); err != nil {
		t.Fatal(err)
	}
	x = want(client.WhyQueuePaused, client.WhyUnknownKind, client.WhyQueueLimit, client.WhyBlocked)
	if x.Queue.Limit == nil || x.Queue.Limit.Running != 2 || x.Depth.Blocked != 2 || !x.Queue.Paused {
		t.Errorf("got %+v", x)
	}
}

func TestAnUnknownJobIsNotExplained(t *testing.T) {
	t.Parallel()
	c := open(t)
	if _, err := c.Explain(t.Context(), c.IDs().New()); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}
