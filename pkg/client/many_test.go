package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestManyJobsComeBackInTheCallersOrder(t *testing.T) {
	t.Parallel()
	c := open(t)
	later, sooner := idAt(time.Now().Add(time.Minute)), idAt(time.Now().Add(-time.Minute))
	got, err := c.EnqueueMany(t.Context(), []job.Spec{
		{Args: welcome{UserID: 0}, Options: job.Options{ID: later}},
		{Args: welcome{UserID: 1}},
		{Args: welcome{UserID: 2}, Options: job.Options{ID: sooner}},
		{Args: welcome{UserID: 3}, Options: job.Options{ID: later}},
	})
	if err != nil || len(got) != 4 {
		t.Fatalf("got %v, %v", got, err)
	}
	if got[0] != (client.Enqueued{ID: later}) || got[1].Duplicate || got[2] != (client.Enqueued{ID: sooner}) ||
		got[3] != (client.Enqueued{ID: later, Duplicate: true}) {
		t.Errorf("got %v", got)
	}
	for i := range 3 {
		row, err := c.Job(t.Context(), got[i].ID)
		if want := fmt.Sprintf(`{"user_id":%d}`, i); err != nil || string(row.Payload) != want {
			t.Errorf("job %d: got %s, %v", i, row.Payload, err)
		}
	}
}

func TestManyJobsAreStoredAllOrNone(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.exec(t, `ALTER TABLE %s.jobs ADD CONSTRAINT no_bad CHECK (payload->>'note' IS DISTINCT FROM 'bad')`)
	jobs := make([]job.Spec, 2500)
	for i := range jobs {
		jobs[i].Args = welcome{UserID: int64(i)}
	}
	jobs[2400].Args = welcome{Note: "bad"} // in the third statement
	_, err := c.EnqueueMany(t.Context(), jobs)
	var unknown *client.UnknownError
	if err == nil || errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	if n := c.count(t, "jobs", "true"); n != 0 {
		t.Errorf("%d jobs were stored", n)
	}
	jobs[2400].Args = welcome{}
	if got, err := c.EnqueueMany(t.Context(), jobs); err != nil || len(got) != len(jobs) {
		t.Errorf("got %d, %v", len(got), err)
	}
	if n := c.count(t, "live", "true"); n != len(jobs) {
		t.Errorf("%d jobs were stored", n)
	}
}

func TestManyBigJobsAreCutIntoStatementsOfFourMegabytes(t *testing.T) {
	t.Parallel()
	c := open(t)
	jobs := make([]job.Spec, 20)
	for i := range jobs {
		jobs[i].Args = welcome{Note: strings.Repeat("x", 1<<20-100)}
	}
	got, err := c.EnqueueMany(t.Context(), jobs)
	if err != nil || len(got) != len(jobs) {
		t.Fatalf("got %d, %v", len(got), err)
	}
	// A statement within a transaction has a command id of its own.
	if n := c.count(t, "jobs", "true"); n != len(jobs) {
		t.Errorf("%d jobs", n)
	}
	var statements int
	query := fmt.Sprintf("SELECT count(DISTINCT cmin::text) FROM %s.jobs", c.namespace)
	if err := c.pool.QueryRow(t.Context(), query).Scan(&statements); err != nil || statements < 5 {
		t.Errorf("%d statements, %v", statements, err)
	}
}

func TestABadJobOfManyIsNamedByItsIndex(t *testing.T) {
	t.Parallel()
	c := open(t)
	for name, bad := range map[string]job.Spec{
		"a bad value": {Args: welcome{}, Options: job.Options{Priority: 99}},
		"a bad id":    {Args: welcome{}, Options: job.Options{ID: idAt(time.Now().Add(time.Hour))}},
	} {
		_, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}, {Args: welcome{}}, bad})
		var field *job.FieldError
		if !errors.As(err, &field) || field.Index != 2 {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := c.EnqueueMany(t.Context(), make([]job.Spec, job.MaxBatch+1))
	var field *job.FieldError
	if !errors.As(err, &field) || field.Field != "jobs" {
		t.Errorf("too many: got %v", err)
	}
}
