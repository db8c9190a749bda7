package worker

import (
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
)

// A renewal that comes after the end of its session, or was under way, must not take it for a loss: it would cry of one, and
// open another session, which nobody ends. The looks before and after the statement cover each other: both have to go for
// this to fail.
func TestARenewalAfterTheEndOfItsSessionIsNoLoss(t *testing.T) {
	t.Parallel()
	pool, namespace := testenv.Schema(t)
	c, err := client.New(pool, client.Config{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w, err := New(c, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.disconnect)
	if _, err := w.openSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := w.endSession()
	if err := w.renewal.CloseSession(t.Context(), s.id); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second would find none, and open one
		if err := w.renewOnce(t.Context()); err != nil || s.lost() {
			t.Errorf("the renewal: %v; lost: %v", err, s.lost())
		}
	}
	var left int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+namespace+".sessions").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d sessions are left: %v", left, err)
	}
}
