package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/coord"
)

// hinted returns a client with Redis at addr. Until something is sent Redis counts as up.
func hinted(t *testing.T, addr string) *client.Client {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), "host=127.0.0.1 port=1 user=nobody dbname=none sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	rdb := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := client.New(pool, client.Config{RedisTimeout: 2 * time.Second, Redis: rdb})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A worker that has put its poll off since a sweeper and Redis were up polls soon once they are not, not when that poll
// would have come.
func TestASleeperThatReliedOnHintsPollsSoonWhenTheyCannotCome(t *testing.T) {
	t.Parallel()
	c := hinted(t, "127.0.0.1:1")
	for name, tt := range map[string]struct{ lease, least, most time.Duration }{
		"the sweeper is lost after 15 s": {15 * time.Second, 15 * time.Second, 15*time.Second + reviewEvery + pollAlone},
		"hints can come all the time":    {time.Hour, 27 * time.Second, 33 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := New(c, Config{Lease: tt.lease})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				w.session.sweeper, w.session.sent = true, begun
				w.disp.pollAt = begun.Add(w.disp.nextPoll(false))
				w.disp.listedAt = begun.Add(time.Hour) // no registration: there is no Redis
				w.disp.sleep(t.Context())
				if got := time.Since(begun); got < tt.least || got > tt.most || time.Now().Before(w.disp.pollAt) {
					t.Errorf("woke after %v with the poll in %v, want %v to %v and 0", got, time.Until(w.disp.pollAt), tt.least, tt.most)
				}
			})
		})
	}
}

// A Redis that is out of memory answers, publishes, and refuses registrations: a worker that stands in no idle set must not
// wait for hints.
func TestAWorkerWhoseRegistrationIsRefusedDoesNotRelyOnHints(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	w, err := New(hinted(t, server.Addr()), Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.session.sweeper, w.session.sent = true, time.Now()
	for _, oom := range []string{"OOM command not allowed when used memory > 'maxmemory'.", ""} {
		server.SetError(oom)
		w.disp.register(t.Context(), true)
		if !w.bus.Healthy() {
			t.Fatal("the bus is not healthy: this test shows nothing")
		}
		if got, want := w.sweeperLives(), oom == ""; got != want {
			t.Errorf("with the answer %q hints are relied on: %v, want %v", oom, got, want)
		}
	}
}

// An idle set that nobody refreshes for two minutes expires, and with it the way for hints.
func TestAWorkerRegistersBeforeItsIdleSetsAreForgotten(t *testing.T) {
	t.Parallel()
	w, err := New(hinted(t, "127.0.0.1:1"), Config{Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.disp.nextPoll(false); got > 90*time.Second {
		t.Errorf("the next poll, which registers, is in %v", got)
	}
}

func TestAHintWithoutATimeThatNoClaimHasServedIsPassedOnAtTheClose(t *testing.T) {
	t.Parallel()
	w, err := New(hinted(t, "127.0.0.1:1"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.disp.applyLowers() // as the first claim does
	if got := w.disp.unserved(); len(got) != 0 {
		t.Errorf("before the hint: %v", got)
	}
	w.disp.hint(0, coord.Hint{Queue: "default"})
	if got := w.disp.unserved(); len(got) != 1 || got[0].Queue != "default" || !got[0].ReadyAt.IsZero() {
		t.Errorf("got %v, want the hint", got)
	}
}

func TestASleeperThatReliesOnHintsStandsInTheIdleSetAgainAfterAFlush(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	w, err := New(hinted(t, server.Addr()), Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.session.sweeper, w.session.sent = true, time.Now()
	w.disp.nextPoll(false)
	w.disp.register(t.Context(), true)
	for _, age := range []time.Duration{0, listEvery} {
		server.FlushAll()
		w.disp.listedAt = time.Now().Add(-age)
		w.disp.refresh(t.Context())
		if got, want := len(server.Keys()), min(int(age), 1); got != want {
			t.Errorf("%v after the last registration it stands in %d idle sets, want %d", age, got, want)
		}
	}
}
