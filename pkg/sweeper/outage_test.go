package sweeper_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestNoHealthyProcessIsCalledDeadAfterAnOutageOfTheDatabase(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second // 15 s and 45 s on a smaller scale
	server := testenv.PrivatePostgres(t)
	pool, ns := testenv.SchemaOn(t, server.URL())
	s := siteOn(t, pool, ns, testenv.RedisNone)
	s.enqueue(40)
	var lost atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 3 {
		w := s.worker(lease)
		s.claim(w, 10)
		wg.Go(func() { s.renew(ctx, w, lease, &lost) })
	}
	dead := s.worker(lease)
	if n := len(s.claim(dead, 10)); n != 10 {
		t.Fatalf("claimed %d", n)
	}
	sw := s.sweeper(sweeper.Config{Lease: lease, Recover: 200 * time.Millisecond})
	s.run(sw)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * lease) // how long the outage lasts is the point
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	testenv.Eventually(t, 30*time.Second, func() bool {
		return s.count(`SELECT count(*) FROM weir.live WHERE crashes = 1`) == 10
	}, "the dead process' jobs are not recovered")
	if took := time.Since(resumed); took < lease-500*time.Millisecond {
		t.Errorf("recovered %v after the outage: healthy processes had no full lease to renew in", took)
	}
	if n := lost.Load(); n != 0 {
		t.Errorf("%d healthy processes were called dead", n)
	}
	if n := s.count(`SELECT count(*) FROM weir.live WHERE state = 1`); n != 30 {
		t.Errorf("%d jobs of healthy processes run, want 30", n)
	}
}

// renew is a healthy process: it renews every lease/5, as soon as it can.
func (s *site) renew(ctx context.Context, session job.ID, lease time.Duration, lost *atomic.Int32) {
	store := pgstore.New(s.pool, pgstore.Config{Schema: s.store.Schema(), Timeout: time.Second})
	ticker := time.NewTicker(lease / 5)
	defer ticker.Stop()
	for {
		_, err := store.Renew(context.WithoutCancel(ctx), session, pgstore.Renewal{Lease: lease, State: "serving"})
		if errors.Is(err, pgstore.ErrSessionLost) {
			lost.Add(1)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
