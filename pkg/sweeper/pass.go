package sweeper

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	// passReserve is how long the next in line keeps its place until a worker takes it: the poll of a worker that hears no
	// hints, and 2 s. With hints it takes a moment.
	passReserve = 7 * time.Second
	// passTries bounds how many places of one key are given away in a row; the duty unblock goes on.
	passTries = 1000
	// passBudget is how long one round passes keys on. What is left is found by the duty unblock as an idle key.
	passBudget = 2 * time.Second
)

// pass gives the free places of keys to the oldest jobs that wait for them, and wakes workers for these. It is called
// after the commit of whatever freed the keys (`postPass`). It returns how many jobs may start.
func (s *Sweeper) pass(ctx context.Context, keys []string) (n int, err error) {
	slices.Sort(keys)
	hints := map[string]coord.Hint{}
	var moves []pgstore.Move
	for end := time.Now().Add(passBudget); err == nil && len(keys) > 0 && time.Now().Before(end) && ctx.Err() == nil; {
		key := keys[0]
		for len(keys) > 0 && keys[0] == key {
			keys = keys[1:]
		}
		err = s.passKey(ctx, key, func(p pgstore.Passed) {
			n += len(p.Reserved)
			moves = append(moves, p.Moves...)
			addReserved(hints, p.Reserved)
		})
	}
	s.tellMoves(ctx, moves)
	_, _ = s.announce(ctx, hints)
	return n, err
}

// passKey repeats while a free place was seen (`passLoop`): another's pass may have been quicker.
func (s *Sweeper) passKey(ctx context.Context, key string, got func(pgstore.Passed)) error {
	for range passTries {
		// The zero session: a sweeper runs nothing itself.
		p, err := s.prompt.Pass(ctx, job.ID{}, key, pgstore.Serves{Reserve: passReserve})
		if err != nil {
			return err
		}
		got(p)
		if !p.Again || ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// tellMoves tells Redis who has the keys now. It is advice: what is lost here costs others a try.
func (s *Sweeper) tellMoves(ctx context.Context, moves []pgstore.Move) {
	swaps := make([]coord.Swap, 0, len(moves))
	for _, m := range moves {
		swaps = append(swaps, coord.Swap{Key: m.Key, Out: member(m.Out), In: member(m.In)})
	}
	if len(swaps) > 0 {
		_ = s.bus.SwapLocks(ctx, swaps, passReserve)
	}
}

// member is how Redis knows a job; the zero ID is nobody.
func member(id job.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// addReserved counts the jobs of each queue and kind that can start now.
func addReserved(hints map[string]coord.Hint, jobs []pgstore.Reservation) {
	for _, r := range jobs {
		addHint(hints, r.Queue, r.Kind, r.ReadyAt)
	}
}

// addHint counts a job that can start at ready.
func addHint(hints map[string]coord.Hint, queue, kind string, ready time.Time) {
	key := queue + "\x00" + kind // neither holds a zero byte: Postgres refuses it
	h, ok := hints[key]
	if !ok {
		h = coord.Hint{Queue: queue, Kind: kind, ReadyAt: ready}
	}
	h.Count++
	if ready.Before(h.ReadyAt) {
		h.ReadyAt = ready
	}
	hints[key] = h
}
