//go:build unix

package chaos_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// What a process under test does between its statements is done by tracers of its connections: the worker's own are copies
// of the client's, tracer and all.

// claimTracer notes when claims are sent.
type claimTracer struct{ ledger *ledger }

func (c claimTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "claim_v1") {
		c.ledger.note(event{What: queried})
	}
	return ctx
}

func (claimTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// pauser waits after each statement that takes jobs, for up to so long: between the answer of a claim and the question to
// Redis, between that and the admission, and while the rows of an admission of several statements are locked.
type pauser time.Duration

func (pauser) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	for _, verb := range []string{"claim_v", "admit", "pass"} {
		if strings.Contains(q.SQL, verb) {
			return context.WithValue(ctx, pauser(0), true)
		}
	}
	return ctx
}

func (p pauser) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(pauser(0)) != nil {
		pause(rand.N(time.Duration(p)))
	}
}

// step is a point between two statements: before or after the nth of those that hold a verb.
type step struct {
	Verb  string
	After bool
	Nth   int64
}

// killer ends its own process with SIGKILL at a step.
type killer struct {
	at   step
	seen atomic.Int64
}

func (k *killer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(q.SQL, k.at.Verb) || k.seen.Add(1) != k.at.Nth {
		return ctx
	}
	if !k.at.After {
		die()
	}
	return context.WithValue(ctx, k, true)
}

func (k *killer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(k) != nil {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // nothing more is done
}
