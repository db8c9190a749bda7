package client_test

import (
	"context"
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

// process is a worker as the database sees one.
type process struct {
	rig
	tb testing.TB
	id job.ID
}

// process opens a session that serves queue "default" and knows kind "mail.welcome".
func (r rig) process(tb testing.TB, change ...func(*pgstore.Session)) process {
	tb.Helper()
	s := pgstore.Session{
		ID: r.IDs().New(), Role: "worker", Lease: time.Minute, Host: "web-7", PID: 4711, Queues: []string{"default"}, Kinds: []string{"mail.welcome"}, Slots: 9,
	}
	for _, f := range change {
		f(&s)
	}
	if _, err := r.Store().OpenSession(tb.Context(), s); err != nil {
		tb.Fatal(err)
	}
	return process{r, tb, s.ID}
}

// start claims and admits what may start, at most n jobs, and returns which do.
func (p process) start(n int) (ids []job.ID) {
	p.tb.Helper()
	ctx := p.tb.Context()
	got, err := p.Store().Claim(ctx, pgstore.ClaimRequest{
		Session: p.id, Queues: []pgstore.ClaimQueue{{Name: "default", Slots: n}}, Kinds: []string{"mail.welcome"},
	})
	if err != nil {
		p.tb.Fatal(err)
	}
	for _, r := range got.Jobs {
		ids = append(ids, r.ID)
	}
	if len(got.Candidates) == 0 {
		return ids
	}
	jobs := make([]pgstore.AdmitJob, len(got.Candidates))
	for i, c := range got.Candidates {
		jobs[i].ID = c.ID
	}
	admitted, err := p.Store().Admit(ctx, p.id, jobs, pgstore.Serves{Queues: []string{"default"}, Kinds: []string{"mail.welcome"}})
	if err != nil {
		p.tb.Fatal(err)
	}
	for _, r := range admitted.Jobs {
		ids = append(ids, r.ID)
	}
	return ids
}

// keyed enqueues n jobs with keys.
func (r rig) keyed(tb testing.TB, n int, keys ...job.Key) (ids []job.ID) {
	tb.Helper()
	for i := range n {
		ids = append(ids, r.enqueue(tb, welcome{UserID: int64(i)}, job.Options{Keys: keys}))
	}
	return ids
}

// reserved returns how many jobs are next in line: free to start, with their locks kept for them.
func (r rig) reserved(tb testing.TB) int {
	tb.Helper()
	return r.count(tb, "live AS l", "state = 0 AND EXISTS (SELECT FROM "+r.namespace+".locks AS k WHERE k.job_id = l.id AND k.until IS NOT NULL)")
}

func TestARaisedLimitStartsThoseWhoWaitAtOnce(t *testing.T) {
	t.Parallel()
	for name, raise := range map[string]func(rig) error{
		"the key's own": func(c rig) error { return c.SetLimit(t.Context(), client.Limit{Key: "tenant:7", N: 4}, false) },
		"a prefix": func(c rig) error {
			return c.SetLimit(t.Context(), client.Limit{Key: "tenant:", Prefix: true, N: 4}, false)
		},
		"an empty prefix": func(c rig) error { return c.SetLimit(t.Context(), client.Limit{Prefix: true, N: 4}, false) },
		"by the file": func(c rig) error {
			_, err := c.SyncLimits(t.Context(), []client.Limit{{Key: "tenant:7", N: 4}}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			p := c.process(t)
			c.keyed(t, 6, job.Mutex("tenant:7"))
			other := c.keyed(t, 2, job.Mutex("other"))
			if got := p.start(9); len(got) != 2 {
				t.Fatalf("%d started, want one of each key", len(got))
			}
			if err := raise(c); err != nil {
				t.Fatal(err)
			}
			want := 3
			if name == "an empty prefix" {
				want = 4 // the other key's second too
			}
			if got := c.reserved(t); got != want {
				t.Errorf("%d are next in line, want %d", got, want)
			}
			if got := p.start(9); len(got) != want {
				t.Errorf("%d started, want %d", len(got), want)
			}
			if want == 3 && slices.Contains(p.start(9), other[1]) {
				t.Error("a job of another key started")
			}
		})
	}
}

func TestALoweredLimitLetsNothingStartBeforeThereIsRoom(t *testing.T) {
	t.Parallel()
	c := open(t)
	p := c.process(t)
	c.keyed(t, 6, job.Limit("k", 3))
	if got := p.start(9); len(got) != 3 {
		t.Fatalf("%d started, want 3", len(got))
	}
	for _, n := range []int{1, 0} {
		if err := c.SetLimit(t.Context(), client.Limit{Key: "k", N: n}, false); err != nil {
			t.Fatal(err)
		}
		if got := c.reserved(t); got != 0 {
			t.Errorf("limit %d: %d are next in line, want none", n, got)
		}
	}
	if err := c.UnsetLimit(t.Context(), client.Limit{Key: "k"}, false); err != nil { // the jobs' own number again, and no room
		t.Fatal(err)
	}
	if got := c.reserved(t); got != 0 {
		t.Errorf("unset: %d are next in line, want none", got)
	}
	if err := c.SetLimit(t.Context(), client.Limit{Key: "k", N: 5}, false); err != nil {
		t.Fatal(err)
	}
	if got := c.reserved(t); got != 2 {
		t.Errorf("limit 5: %d are next in line, want 2", got)
	}
}

func TestEndedJobsGiveTheirPlacesOn(t *testing.T) { // cancelPass
	t.Parallel()
	for name, end := range map[string]func(c rig, id job.ID) error{
		"cancel": func(c rig, id job.ID) error { return c.Cancel(t.Context(), id) },
		"delete": func(c rig, id job.ID) error { return c.Delete(t.Context(), id) },
		"many": func(c rig, id job.ID) error {
			_, err := c.CancelMany(t.Context(), client.Filter{Key: "k", State: job.Available})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			p := c.process(t)
			ids := c.keyed(t, 4, job.Mutex("k"))
			p.start(9)
			if err := c.SetLimit(t.Context(), client.Limit{Key: "k", N: 2}, false); err != nil {
				t.Fatal(err)
			}
			if got := c.reserved(t); got != 1 {
				t.Fatalf("%d are next in line, want 1", got)
			}
			if err := end(c, ids[1]); err != nil { // the one that is next in line
				t.Fatal(err)
			}
			if got := p.start(9); !slices.Equal(got, ids[2:3]) {
				t.Errorf("%v started, want %v", got, ids[2:3])
			}
		})
	}
}

func TestEntriesOfAFileAreItsOwn(t *testing.T) {
	t.Parallel()
	c := open(t)
	ctx := t.Context()
	mine := client.Limit{Key: "mine", N: 7}
	file := []client.Limit{{Key: "a", N: 1}, {Key: "p:", Prefix: true, N: 2}, {Key: "a", Rate: true, N: 3, Per: time.Second}, {Key: "mine", Prefix: true, N: 4}}
	queues := []client.QueueLimit{{Name: "mail", N: 40, Rate: 200, Per: time.Second}, {Name: "bulk", N: 1}}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.SetLimit(ctx, mine, false))
	check(c.SetLimit(ctx, client.Limit{Key: "a", N: 99}, false)) // by hand first: the file takes it over
	n, err := c.SyncLimits(ctx, file, queues)
	if err != nil || n != 6 {
		t.Fatalf("got %d changes, %v, want 6", n, err)
	}
	if n, err := c.SyncLimits(ctx, file, queues); err != nil || n != 0 {
		t.Errorf("again: got %d changes, %v, want none", n, err)
	}
	var owned *client.OwnedError
	for _, l := range file {
		if err := c.SetLimit(ctx, l, false); !errors.As(err, &owned) || !strings.Contains(err.Error(), l.Key) {
			t.Errorf("set %+v: got %v, want an *OwnedError", l, err)
		}
		if err := c.UnsetLimit(ctx, l, false); !errors.As(err, &owned) {
			t.Errorf("unset %+v: got %v, want an *OwnedError", l, err)
		}
	}
	if err := c.SetQueueLimit(ctx, client.QueueLimit{Name: "mail", N: 1}, false); !errors.As(err, &owned) || owned.What != "queue mail" {
		t.Errorf("queue: got %v, want an *OwnedError", err)
	}
	if err := c.UnsetQueueLimit(ctx, "mail", false); !errors.As(err, &owned) {
		t.Errorf("queue: got %v, want an *OwnedError", err)
	}
	// Replaced by hand, an entry stays so until it is unset.
	check(c.SetLimit(ctx, client.Limit{Key: "a", N: 50}, true))
	check(c.SetQueueLimit(ctx, client.QueueLimit{Name: "bulk", N: 5}, true))
	if n, err := c.SyncLimits(ctx, file, queues); err != nil || n != 0 {
		t.Errorf("over an override: got %d changes, %v, want none", n, err)
	}
	check(c.UnsetLimit(ctx, client.Limit{Key: "a"}, false))
	check(c.UnsetQueueLimit(ctx, "bulk", false))
	if n, err := c.SyncLimits(ctx, file[:1], queues[:0]); err != nil || n != 4+1 { // a written again, three taken away; mail taken away
		t.Errorf("a shorter list: got %d changes, %v, want 5", n, err)
	}
	limits, err := c.Limits(ctx)
	want := []client.Limit{{Key: "a", N: 1, Owner: "config"}, {Key: "mine", N: 7}}
	if err != nil || !slices.Equal(limits, want) {
		t.Errorf("got %+v, %v, want %+v", limits, err, want)
	}
	if n, err := c.SyncLimits(ctx, nil, nil); err != nil || n != 0 {
		t.Errorf("no lists: got %d changes, %v, want none", n, err)
	}
	if left, err := c.QueueLimits(ctx); err != nil || len(left) != 0 {
		t.Errorf("queues: got %+v, %v, want none", left, err)
	}
	for _, err := range []error{c.UnsetLimit(ctx, client.Limit{Key: "nobody"}, true), c.UnsetLimit(ctx, client.Limit{Key: "a", Rate: true}, true), c.UnsetQueueLimit(ctx, "nobody", true)} {
		if !errors.Is(err, client.ErrNoLimit) {
			t.Errorf("got %v, want ErrNoLimit", err)
		}
	}
}

func TestLimitsThatCannotBeAreRefusedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	ctx := context.Background()
	var field *job.FieldError
	for want, err := range map[string]error{
		"key 1":   c.SetLimit(ctx, client.Limit{N: 1}, false),
		"key 2":   c.SetLimit(ctx, client.Limit{Key: "weir.x", N: 1}, false),
		"key 3":   c.SetLimit(ctx, client.Limit{Key: strings.Repeat("k", 256), Prefix: true, N: 1}, false),
		"limit 1": c.SetLimit(ctx, client.Limit{Key: "a", N: -1}, false),
		"limit 2": c.SetLimit(ctx, client.Limit{Key: "a", N: 100_001}, false),
		"limit 3": c.SetLimit(ctx, client.Limit{Key: "a", Rate: true, Per: time.Second}, false),
		"per 1":   c.SetLimit(ctx, client.Limit{Key: "a", N: 1, Per: time.Second}, false),
		"per 2":   c.SetLimit(ctx, client.Limit{Key: "a", N: 1, Rate: true}, false),
		"per 3":   c.SetLimit(ctx, client.Limit{Key: "a", N: 1, Rate: true, Per: 25 * time.Hour}, false),
		"queue 1": c.SetQueueLimit(ctx, client.QueueLimit{N: 1}, false),
		"queue 2": c.UnsetQueueLimit(ctx, "a\n", false),
		"limit 4": c.SetQueueLimit(ctx, client.QueueLimit{Name: "q"}, false),
		"limit 5": c.SetQueueLimit(ctx, client.QueueLimit{Name: "q", N: -1}, false),
		"rate 1":  c.SetQueueLimit(ctx, client.QueueLimit{Name: "q", Rate: 1e6}, false),
		"per 4":   c.SetQueueLimit(ctx, client.QueueLimit{Name: "q", Rate: 1}, false),
		"per 5":   c.SetQueueLimit(ctx, client.QueueLimit{Name: "q", N: 1, Per: 1}, false),
	} {
		if !errors.As(err, &field) || field.Field != strings.Fields(want)[0] {
			t.Errorf("%s: got %v, want a *job.FieldError of it", want, err)
		}
	}
	_, err := c.SyncLimits(ctx, []client.Limit{{Key: "a", N: -1}}, nil)
	if !errors.As(err, &field) {
		t.Errorf("got %v, want a *job.FieldError", err)
	}
}

func TestAQueueIsLimitedForAllItsWorkers(t *testing.T) {
	t.Parallel()
	c := open(t)
	one, other := c.process(t), c.process(t)
	for i := range 9 {
		c.enqueue(t, welcome{UserID: int64(i)})
	}
	if err := c.SetQueueLimit(t.Context(), client.QueueLimit{Name: "default", N: 3}, false); err != nil {
		t.Fatal(err)
	}
	if a, b := one.start(2), other.start(9); len(a) != 2 || len(b) != 1 {
		t.Errorf("%d and %d started, want 2 and 1", len(a), len(b))
	}
	limits, err := c.QueueLimits(t.Context())
	want := client.QueueLimit{Name: "default", N: 3, Running: 3}
	if err != nil || len(limits) != 1 || limits[0] != want {
		t.Errorf("got %+v, %v, want %+v", limits, err, want)
	}
	if err := c.UnsetQueueLimit(t.Context(), "default", false); err != nil {
		t.Fatal(err)
	}
	if got := other.start(9); len(got) != 6 {
		t.Errorf("%d started without a limit, want 6", len(got))
	}
	if n := c.count(t, "actions", "verb IN ('limit', 'unlimit') AND target = 'queue default'"); n != 2 {
		t.Errorf("%d actions were written down, want 2", n)
	}
}

func TestManyKeysOfAPrefixArePassedOn(t *testing.T) {
	t.Parallel()
	c := open(t)
	p := c.process(t)
	var specs []job.Spec
	for i := range 200 {
		specs = append(specs, job.Spec{Args: welcome{}, Options: job.Options{Keys: []job.Key{job.Mutex(fmt.Sprint("t:", i/2))}}})
	}
	if _, err := c.EnqueueMany(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	if got := p.start(200); len(got) != 100 {
		t.Fatalf("%d started, want 100", len(got))
	}
	if err := c.SetLimit(t.Context(), client.Limit{Key: "t:", Prefix: true, N: 2}, false); err != nil {
		t.Fatal(err)
	}
	if got := c.reserved(t); got != 100 {
		t.Errorf("%d are next in line, want 100", got)
	}
}
