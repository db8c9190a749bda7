package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	// maxPassed is how many keys one call passes on. What is beyond is found by the sweeper within seconds.
	maxPassed = 1000
	// passBudget bounds how long that takes by the local clock.
	passBudget = 5 * time.Second
	// passReserve is how long the next in line keeps its place until a worker takes it: the poll of a worker that hears no hints,
	// and 2 s.
	passReserve = 7 * time.Second
)

// pass gives the free places of locks to the jobs that wait for them, and wakes workers: after the commit of whatever freed the
// keys or raised their limit (`cancelPass`). An error is left to the sweeper, which finds keys with room by itself.
func (c *Client) pass(ctx context.Context, keys []string) {
	if len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	// The change is committed: a caller that goes now must not leave those who wait.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), passBudget)
	defer cancel()
	hints, moves := announcements{}, []coord.Swap{}
	for _, key := range keys[:min(len(keys), maxPassed)] {
		if err := c.passKey(ctx, key, hints, &moves); err != nil {
			c.cfg.Logger.Warn("keys were not passed on; the sweeper will", "keys", len(keys), "error", scrub(err))
			break
		}
	}
	if len(moves) > 0 {
		_ = c.bus.SwapLocks(ctx, moves, passReserve) // advice: what is lost costs others a try
	}
	c.hints.wake(hints)
}

// passKey repeats while a free place was seen (`passLoop`): another's pass may have been quicker.
func (c *Client) passKey(ctx context.Context, key string, hints announcements, moves *[]coord.Swap) error {
	for {
		// The zero session: a client runs nothing itself.
		p, err := c.store.Pass(ctx, job.ID{}, key, pgstore.Serves{Reserve: passReserve})
		if err != nil {
			return fmt.Errorf("pass %s on: %w", job.SanitizeText(key, job.MaxKeyBytes), err)
		}
		for _, r := range p.Reserved {
			hints.add(coord.Hint{Queue: r.Queue, Kind: r.Kind, Count: 1, ReadyAt: r.ReadyAt})
		}
		for _, m := range p.Moves {
			*moves = append(*moves, coord.Swap{Key: m.Key, Out: member(m.Out), In: member(m.In)})
		}
		if !p.Again {
			return nil
		}
	}
}

// member is how Redis knows the holder of a lock; the zero ID is nobody.
func member(id job.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// add counts the jobs of h.
func (a announcements) add(h coord.Hint) {
	key := subject{h.Queue, h.Kind}
	if old, ok := a[key]; ok {
		h.Count += old.Count
		h.ReadyAt = earliest(h.ReadyAt, old.ReadyAt)
	}
	a[key] = h
}

// reserved returns what jobs that are about to be ended may have reserved of their rates in Redis.
func (c *Client) reserved(ctx context.Context, store *pgstore.Store, ids []job.ID) ([]reservation, error) {
	if !c.bus.Enabled() {
		return nil, nil
	}
	rows, err := store.WaitingRates(ctx, ids)
	if err != nil {
		return nil, err
	}
	had := make([]reservation, 0, len(rows))
	for _, r := range rows {
		had = append(had, reservationOf(r))
	}
	return had, nil
}

// reservationOf names what a waiting job may have reserved. By the claim that would come next: the member of a job is its id and
// that claim's fence.
func reservationOf(r pgstore.RatesOf) reservation {
	one := coord.RateJob{Member: fmt.Sprintf("%s:%d", r.ID, r.Fence+1)}
	for _, k := range r.Rates {
		one.Rates = append(one.Rates, coord.RateKey{Name: k.Name(), N: k.N(), Per: k.Per(), Weight: k.Cost()})
	}
	return reservation{r.ID, one}
}

// unreserve gives back what jobs that were ended had reserved, so that others start in their place. It is advice.
func (c *Client) unreserve(ctx context.Context, had []reservation, ended func(job.ID) bool) {
	var jobs []coord.RateJob
	for _, r := range had {
		if ended(r.id) {
			jobs = append(jobs, r.rates)
		}
	}
	if len(jobs) > 0 {
		_ = c.bus.Unreserve(context.WithoutCancel(ctx), jobs)
	}
}

// reservation is what a job may have reserved of its rates.
type reservation struct {
	id    job.ID
	rates coord.RateJob
}
