package run

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

// White-box: a loop that stands still cannot be had from outside.

func newWorkerHealth(stats func() worker.Stats) *workerHealth {
	h := &workerHealth{stats: stats, bus: coord.New(nil, coord.Config{}), contact: newContact(), lease: 15 * time.Second, connect: 5 * time.Second}
	h.phase.Store(serving)
	return h
}

func TestAWorkerWhoseLoopsTryNothingIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newWorkerHealth(func() worker.Stats { return worker.Stats{Slots: 1, Running: 1} })
		time.Sleep(30 * time.Second)
		if reason := h.live(); reason != "" {
			t.Errorf("after 30s: %s", reason)
		}
		time.Sleep(6 * time.Second)
		if reason := h.live(); !strings.Contains(reason, "no statement was tried for 36s") {
			t.Errorf("after 36s: %q", reason)
		}
		h.contact.TraceConnectStart(t.Context(), pgx.TraceConnectStartData{}) // in vain, but it is tried
		if reason := h.live(); reason != "" {
			t.Errorf("after a try: %s", reason)
		}
		for _, phase := range []int32{starting, closing} {
			h.phase.Store(phase)
			time.Sleep(time.Hour)
			if reason := h.live(); reason != "" {
				t.Errorf("in phase %d: %s", phase, reason)
			}
		}
	})
}

func TestAWorkerThatRenewsAndDoesNotClaimIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stats := worker.Stats{Slots: 2, Running: 1, PolledAt: time.Now()}
		h := newWorkerHealth(func() worker.Stats { s := stats; s.RenewedAt = time.Now(); return s })
		time.Sleep(3 * time.Minute)
		if reason := h.live(); reason != "" {
			t.Errorf("at the first look: %s", reason)
		}
		time.Sleep(2 * settle)
		if reason := h.live(); !strings.Contains(reason, "the loop that claims stands still") {
			t.Errorf("at the second look: %q", reason)
		}
		if reason, _ := h.ready(); !strings.Contains(reason, "the last poll that it answered was 3m20s ago") {
			t.Errorf("ready: %q", reason)
		}
		stats.Running = 2 // no free slot: it has nothing to claim for
		if reason := h.live(); reason != "" {
			t.Errorf("without a free slot: %s", reason)
		}
		stats.Running, stats.PolledAt = 1, time.Now()
		if reason := h.live(); reason != "" {
			t.Errorf("after a poll: %s", reason)
		}
	})
}

func TestAProcessWhoseStateIsLockedIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newWorkerHealth(func() worker.Stats { <-release; return worker.Stats{} })
		if reason := h.live(); reason != locked {
			t.Errorf("live: %q", reason)
		}
		if reason, _ := h.ready(); reason != locked {
			t.Errorf("ready: %q", reason)
		}
		close(release)
		synctest.Wait()
	})
}

func TestASweeperWhoseDutyStandsStillIsNotAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := uint64(0)
		h := &sweeperHealth{bus: coord.New(nil, coord.Config{}), contact: newContact(), lease: 15 * time.Second, off: []string{"rotate"}}
		h.stats = func() sweeper.Stats {
			return sweeper.Stats{Duties: []sweeper.DutyStats{
				{Name: "wake", Every: time.Second, Runs: runs}, {Name: "recover", Every: time.Second, Runs: 7}, {Name: "rotate", Every: time.Minute},
			}}
		}
		h.phase.Store(serving)
		for range 3 {
			if reason := h.live(); reason != "" {
				t.Errorf("after %d runs: %s", runs, reason)
			}
			runs++
			time.Sleep(time.Minute)
		}
		if reason := h.live(); !strings.Contains(reason, "the duty recover has not run for 3m0s") {
			t.Errorf("after three minutes: %q", reason)
		}
	})
}

func TestTheContactKnowsAnAnswerFromASilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newContact()
		time.Sleep(time.Minute)
		end := func(err error) { c.TraceQueryEnd(t.Context(), nil, pgx.TraceQueryEndData{Err: err}) }
		end(errors.New("read tcp: i/o timeout"))
		if got := c.sinceAnswer(); got < time.Minute {
			t.Errorf("a connection that broke counts as an answer: %v", got)
		}
		end(&pgconn.PgError{Code: "40001"})
		if got := c.sinceAnswer(); got > time.Second || c.refused.Load() != 1 {
			t.Errorf("an error of the server is no answer: %v", got)
		}
	})
}

func TestHeadIsAnsweredLikeGet(t *testing.T) {
	t.Parallel()
	h := newWorkerHealth(func() worker.Stats { return worker.Stats{} })
	handler := routes(h, newRegistry(), slog.New(slog.DiscardHandler))
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503, "/metrics": 200, "/x": 404} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		if w.Code != want {
			t.Errorf("HEAD %s is %d, want %d", path, w.Code, want)
		}
	}
}
