package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// list returns the ids that a filter selects.
func (r rig) list(tb testing.TB, f client.Filter) (ids []job.ID) {
	tb.Helper()
	for row, err := range r.Jobs(tb.Context(), f) {
		if err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, row.ID)
	}
	return ids
}

func TestJobsAreListedNewestFirstAcrossPages(t *testing.T) {
	t.Parallel()
	c := open(t)
	jobs := make([]job.Spec, 250)
	for i := range jobs {
		jobs[i].Args = welcome{UserID: int64(i)}
	}
	made, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	got := c.list(t, client.Filter{})
	if len(got) != len(made) {
		t.Fatalf("got %d", len(got))
	}
	for i, id := range got {
		if want := made[len(made)-1-i].ID; id != want {
			t.Fatalf("at %d: got %s, want %s", i, id, want)
		}
	}
}

func TestAListIsStableWhileJobsComeAndGo(t *testing.T) {
	t.Parallel()
	c := open(t)
	jobs := make([]job.Spec, 230)
	for i := range jobs {
		jobs[i].Args = welcome{UserID: int64(i)}
	}
	made, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[job.ID]int{}
	for row, err := range c.Jobs(t.Context(), client.Filter{Kind: "mail.welcome"}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[row.ID]++; len(seen)%10 == 0 {
			c.enqueue(t, welcome{})                               // comes
			if err := c.Delete(t.Context(), row.ID); err != nil { // goes
				t.Fatal(err)
			}
		}
		if len(seen)%10 == 5 { // changes
			if err := c.Cancel(t.Context(), row.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range made {
		if seen[e.ID] != 1 {
			t.Errorf("job %s was seen %d times", e.ID, seen[e.ID])
		}
	}
}

func TestAFilterSelects(t *testing.T) {
	t.Parallel()
	c := open(t)
	old := c.enqueue(t, welcome{}, job.Options{ID: idAt(time.Now().Add(-48 * time.Hour)), Queue: "old"})
	mail := c.enqueue(t, welcome{}, job.Options{Queue: "mail", Tags: []string{"x", "y"}})
	daily := c.enqueue(t, report{}, job.Options{Delay: time.Hour})
	gone := c.enqueue(t, report{})
	if err := c.Cancel(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter client.Filter
		want   []job.ID
	}{
		"all":             {client.Filter{}, []job.ID{gone, daily, mail, old}},
		"a queue":         {client.Filter{Queue: "mail"}, []job.ID{mail}},
		"a kind":          {client.Filter{Kind: "report.daily"}, []job.ID{gone, daily}},
		"a state":         {client.Filter{State: job.Cancelled}, []job.ID{gone}},
		"scheduled":       {client.Filter{State: job.Scheduled}, []job.ID{daily}},
		"a tag":           {client.Filter{Tag: "y"}, []job.ID{mail}},
		"the last day":    {client.Filter{Since: 24 * time.Hour}, []job.ID{gone, daily, mail}},
		"kind and state":  {client.Filter{Kind: "report.daily", State: job.Scheduled}, []job.ID{daily}},
		"nothing like it": {client.Filter{Queue: "none"}, nil},
	} {
		got := c.list(t, test.filter)
		if len(got) != len(test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s: got %v, want %v", name, got, test.want)
			}
		}
	}
}

func TestABadFilterIsAFieldError(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	for field, filter := range map[string]client.Filter{
		"State": {State: "asleep"},
		"Tag":   {Tag: "a\x00"},
		"Since": {Since: -1},
		"queue": {Queue: "a\x00"},
		"kind":  {Kind: "a b"},
	} {
		n := 0
		for _, err := range c.Jobs(t.Context(), filter) {
			var bad *job.FieldError
			if n++; !errors.As(err, &bad) || bad.Field != field {
				t.Errorf("%s: got %v", field, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d rows", field, n)
		}
	}
}

func TestALoopOverJobsCanBeLeft(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	for _, err := range c.Jobs(t.Context(), client.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if n := c.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are held", n)
	}
}

func TestAJobThatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	c := open(t)
	for _, id := range []job.ID{{}, idAt(time.Now())} {
		if _, err := c.Job(t.Context(), id); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}
