package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestAWaitingJobGetsAnotherTimeAndPriority(t *testing.T) {
	t.Parallel()
	r := open(t)
	e, err := r.Enqueue(t.Context(), welcome{}, job.Options{ExpiresIn: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := r.Job(t.Context(), e.ID)
	if err := r.Change(t.Context(), client.Change{In: 30 * time.Minute, Priority: 2}, e.ID); err != nil {
		t.Fatal(err)
	}
	row, _ := r.Job(t.Context(), e.ID)
	if row.State != job.Scheduled || row.Priority != 2 || row.Fence != before.Fence+1 {
		t.Errorf("changed to %+v", row)
	}
	if d := row.ReadyAt.Sub(before.ReadyAt); d < 29*time.Minute || d > 31*time.Minute {
		t.Errorf("it is due %v later", d)
	}
	if d := row.ExpiresAt.Sub(row.ReadyAt); d < 59*time.Minute || d > 61*time.Minute {
		t.Errorf("it expires %v after it is due", d)
	}
	if err := r.Change(t.Context(), client.Change{Now: true}, e.ID); err != nil {
		t.Fatal(err)
	}
	if s := r.state(t, e.ID); s != job.Available {
		t.Errorf("due now, it is %s", s)
	}
	session := r.session(t)
	rows := r.claim(t, session, "default", welcome{}.Kind())
	if len(rows) != 1 || rows[0].Priority != 2 {
		t.Fatalf("claimed %+v", rows)
	}
	var state *client.StateError
	if err := r.Change(t.Context(), client.Change{Now: true}, e.ID); !errors.As(err, &state) || state.State != job.Running {
		t.Errorf("while it runs: %v", err)
	}
	if err := r.Change(t.Context(), client.Change{Now: true}, job.ID{1}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a job that is not there: %v", err)
	}
}

func TestChangesByFilterAreWrittenDown(t *testing.T) {
	t.Parallel()
	r := open(t)
	for range 3 {
		if _, err := r.Enqueue(t.Context(), welcome{}, job.Options{Queue: "later"}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := r.ChangeMany(t.Context(), client.Filter{Queue: "later"}, client.Change{Priority: 9})
	if err != nil || n != 3 {
		t.Fatalf("changed %d, %v", n, err)
	}
	if n := r.count(t, "actions", "verb = 'change' AND rows = 3"); n != 1 {
		t.Errorf("%d rows in actions", n)
	}
	if n := r.count(t, "live", "priority = 9"); n != 3 {
		t.Errorf("%d of 3 have the new priority", n)
	}
}

func TestAChangeThatSaysNothingOrTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	r := open(t)
	for name, ch := range map[string]client.Change{
		"empty": {}, "two times": {In: time.Minute, Now: true}, "priority": {Priority: 10}, "negative": {In: -time.Second},
	} {
		var field *job.FieldError
		if err := r.Change(t.Context(), ch, job.ID{1}); !errors.As(err, &field) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
