package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Move is a lock that changed hands.
type Move struct {
	Key string
	Out job.ID // who had it; zero: it was free
	In  job.ID // who has it now; zero: it is free
}

// KeyedFinish is what became of completions and of their keys.
type KeyedFinish struct {
	Now      time.Time
	Accepted map[job.ID]bool
	Handed   []job.Row // running now, here, on a key that was freed
	Missing  []job.Row // running too, but without a log row
	Reserved []Reservation
	Moves    []Move
	Freed    []string // to Pass after this
}

// FinishKeyed is Finish for jobs with keys: in the same round trip the locks go to the oldest jobs that wait for them.
// Errors as those of Finish; a job that was handed over meanwhile is then held by the session and not known: Held tells.
func (s *Store) FinishKeyed(ctx context.Context, session job.ID, done []Completion, serves Serves) (KeyedFinish, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	slices.SortFunc(done, func(a, b Completion) int { return slices.Compare(a.ID[:], b.ID[:]) })
	ids, fences := make([][16]byte, len(done)), make([]int32, len(done))
	var results []*string
	for i := range done {
		ids[i], fences[i] = done[i].ID, int32(done[i].Fence)
		put(&results, len(done), i, text(string(done[i].Result)))
	}
	queues, kinds, take, reserve := serves.columns()
	rows, err := s.keyed(ctx, "finish_keyed_v1", [16]byte(session), ids, fences, results, queues, kinds, take, reserve)
	if err != nil {
		return KeyedFinish{}, err
	}
	out := KeyedFinish{
		Now: rows.now, Accepted: make(map[job.ID]bool, len(rows.accepted)), Handed: rows.jobs, Missing: rows.missing,
		Reserved: rows.reserved, Moves: rows.moves, Freed: rows.freed,
	}
	for _, id := range rows.accepted {
		out.Accepted[id] = true
	}
	return out, nil
}
