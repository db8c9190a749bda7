package pgstore

import (
	"context"
	"fmt"
	"slices"
)

// What Tidy repairs: the kinds of weir_lock_repairs_total.
const (
	RepairReservation = "reservation" // ran out: whoever was next in line did not start
	RepairOrphan      = "orphan"      // a lock row without its claim
	RepairIdle        = "idle"        // a key had room, somebody waited for it, and nobody had passed it on
)

// Tidied is what Tidy found.
type Tidied struct {
	Keys    []string       // to Pass: freed here, or with room and a line
	Repairs map[string]int // by kind
	Next    string         // where the next look for idle keys begins; "": all were looked at
	More    bool           // there was more than limit: call again
}

// Tidy repairs what others have left: reservations that ran out, lock rows without a claim, and keys with room for jobs
// that wait for them. It looks at most limit of each, at keys with a line from after on.
func (s *Store) Tidy(ctx context.Context, after string, limit int) (Tidied, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	out := Tidied{Repairs: make(map[string]int)}
	var reservations, orphans, idle int
	if err := s.row(ctx, s.call("tidy_reservations_v1", "jobs, keys", 1), int32(limit)).Scan(&reservations, &out.Keys); err != nil {
		return Tidied{}, fmt.Errorf("tidy reservations: %w", Classify(err))
	}
	var keys []string
	if err := s.row(ctx, s.call("tidy_orphans_v1", "rows, keys", 1), int32(limit)).Scan(&orphans, &keys); err != nil {
		return Tidied{}, fmt.Errorf("tidy lock rows: %w", Classify(err))
	}
	out.Keys = append(out.Keys, keys...)
	var next *string
	if err := s.row(ctx, s.call("idle_keys_v1", "keys, next", 2), after, int32(limit)).Scan(&keys, &next); err != nil {
		return Tidied{}, fmt.Errorf("look for idle keys: %w", Classify(err))
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(out.Keys, key) }) // free since a moment ago
	out.Keys, idle, out.Next = append(out.Keys, keys...), len(keys), deref(next)
	for kind, n := range map[string]int{RepairReservation: reservations, RepairOrphan: orphans, RepairIdle: idle} {
		if n > 0 {
			out.Repairs[kind] = n
		}
	}
	out.More = reservations >= limit || orphans >= limit
	return out, nil
}
