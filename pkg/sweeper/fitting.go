package sweeper

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// fitting makes of what is due what may start: where a queue has a limit for the whole fleet no more workers are woken
// than it has room for, and none when it is full: whoever ends a job of it claims again.
func fitting(ctx context.Context, store *pgstore.Store, queues []pgstore.DueQueue) ([]pgstore.DueQueue, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	limits, err := store.QueueLimits(ctx, "")
	if err != nil || len(limits) == 0 {
		return queues, err
	}
	rooms := make(map[string]int, len(limits))
	for _, l := range limits {
		rooms[l.Name] = room(l)
	}
	var out []pgstore.DueQueue
	for _, q := range queues {
		if room, ok := rooms[q.Queue]; ok {
			q.Due = min(q.Due, room)
			slices.SortFunc(q.Coming, time.Time.Compare)
			q.Coming = q.Coming[:min(len(q.Coming), max(room, 1))] // there may be room by then
		}
		if q.Due > 0 || len(q.Coming) > 0 {
			out = append(out, q)
		}
	}
	return out, nil
}

// room is how many jobs of a queue may start now.
func room(l pgstore.QueueLimit) int {
	n := wakeLimit
	if l.N > 0 {
		n = min(n, l.N-l.Running)
	}
	if l.Rate > 0 {
		n = min(n, l.Rate-l.Granted)
	}
	return max(n, 0)
}
