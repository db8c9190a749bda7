package client_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

func TestAnOverviewNeedsNoSweeper(t *testing.T) {
	t.Parallel()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if o, err := c.Queues(ctx); err != nil || len(o.Queues) != 0 || o.Estimated {
		t.Errorf("an empty schema: %+v, %v", o, err)
	}
	// The counts of a moment ago would be taken.
	if _, err := pool.Exec(ctx, `DELETE FROM "`+namespace+`".counts`); err != nil {
		t.Fatal(err)
	}
	var ids []job.ID
	for _, o := range []job.Options{{Queue: "mail"}, {Queue: "mail"}, {Queue: "mail", Delay: time.Hour}, {Queue: "mial"}} {
		e, err := c.Enqueue(ctx, job.Raw{Name: "k"}, o)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	session := pgstore.Session{ID: c.IDs().New(), Role: "worker", Lease: time.Minute, Host: "h", PID: 7, Queues: []string{"mail", "idle"}, Kinds: []string{"k"}, Slots: 9}
	if _, err := c.Store().OpenSession(ctx, session); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause(ctx, client.Kind("other")); err != nil {
		t.Fatal(err)
	}
	o, err := c.Queues(ctx)
	if err != nil || len(o.Queues) != 3 {
		t.Fatalf("got %+v, %v", o, err)
	}
	if i, m, w := o.Queues[0], o.Queues[1], o.Queues[2]; i.Name != "idle" || i.Workers != 1 || i.Slots != 9 || i.Ready != 0 ||
		m.Name != "mail" || m.Workers != 1 || m.Ready != 2 || m.Scheduled != 1 || m.Oldest < 0 || w.Name != "mial" || w.Workers != 0 || w.Ready != 1 {
		t.Errorf("got %+v", o.Queues)
	}
	workers, err := c.Workers(ctx)
	if err != nil || len(workers) != 1 || workers[0].ID != session.ID || workers[0].Lease <= 50*time.Second || !slices.Equal(workers[0].Queues, session.Queues) {
		t.Errorf("got %+v, %v", workers, err)
	}
	kinds, err := c.Kinds(ctx)
	if err != nil || len(kinds) != 2 || kinds[0].Name != "k" || kinds[0].Workers != 1 || kinds[0].Paused || kinds[1].Name != "other" || !kinds[1].Paused {
		t.Errorf("got %+v, %v", kinds, err)
	}
	found, err := c.Find(ctx, ids[0], ids[2])
	if err != nil || !slices.Equal(found, ids[:3]) {
		t.Errorf("got %v, %v, want %v", found, err, ids[:3])
	}
}
