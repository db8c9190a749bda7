package client_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestAClientWorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	url := testenv.PgBouncer(t, testenv.Postgres(t))
	direct, namespace := testenv.Schema(t)
	c := clientOn(t, testenv.Pool(t, url), namespace, func(cfg *client.Config) { cfg.Pooler = true })
	session := c.session(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				c.enqueue(t, welcome{})
				if err := c.InTx(t.Context(), func(tx pgx.Tx) error {
					_, err := c.EnqueueTx(t.Context(), tx, welcome{})
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	jobs := make([]job.Spec, 1500)
	for i := range jobs {
		jobs[i].Args = report{}
	}
	if _, err := c.EnqueueMany(t.Context(), jobs); err != nil {
		t.Error(err)
	}
	if n := (rig{c.Client, direct, namespace}).count(t, "live", "true"); n != 160+1500 {
		t.Errorf("%d jobs", n)
	}
	row := c.claim(t, session, "default", "mail.welcome")[0]
	c.complete(t, session, row, `7`)
	if got, err := client.Await[int](t.Context(), c.Client, row.ID); got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if n, err := c.CancelMany(t.Context(), client.Filter{Queue: "reports"}); n != 1500 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
}
