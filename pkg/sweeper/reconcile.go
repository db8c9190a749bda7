package sweeper

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// RepairMember is a member of a key's holders in Redis that Postgres does not know, or one that Redis has lost: the kind
// of weir_lock_repairs_total beside pgstore's.
const RepairMember = "member"

// reconcileBatch is how many keys one round compares: a question to Redis for each.
const reconcileBatch = 100

// repairKinds are all kinds, for metrics.
var repairKinds = []string{pgstore.RepairReservation, pgstore.RepairOrphan, pgstore.RepairIdle, RepairMember}

// repairs counts them.
type repairs struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (r *repairs) add(kind string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = make(map[string]uint64, len(repairKinds))
	}
	r.n[kind] += uint64(n)
}

func (r *repairs) read() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]uint64, len(repairKinds))
	for _, kind := range repairKinds {
		out[kind] = r.n[kind]
	}
	return out
}

// reconcileOnce compares what Redis and Postgres say of the holders of keys that somebody waits for, some keys each round,
// and writes the truth to Redis where they differ. It returns how many members were wrong or missing. A key that nobody
// waits for needs none of it: whoever is refused there asks Postgres, and what leaked in Redis expires.
//
// Redis is asked before Postgres and again after it: what differs from both answers is no change under way. A grant that
// Postgres has not decided yet may be dropped; it is decided there all the same.
func (s *Sweeper) reconcileOnce(ctx context.Context) (n int, err error) {
	if !s.bus.Enabled() {
		return 0, nil
	}
	keys, err := s.slow.LineKeys(ctx, s.reconcileAt, reconcileBatch)
	if err != nil {
		return 0, err
	}
	s.reconcileAt = ""
	if len(keys) == reconcileBatch {
		s.reconcileAt = keys[len(keys)-1]
	}
	before := s.members(ctx, keys)
	if len(before) == 0 {
		return 0, nil
	}
	truth, err := s.slow.LineHolders(ctx, keys)
	if err != nil {
		return 0, err
	}
	suspects := slices.DeleteFunc(keys, func(key string) bool {
		seen, ok := before[key]
		return !ok || len(differ(seen, truth[key])) == 0
	})
	wrong := map[string][]string{}
	for key, after := range s.members(ctx, suspects) {
		first := differ(before[key], truth[key])
		still := slices.DeleteFunc(differ(after, truth[key]), func(id string) bool { return !slices.Contains(first, id) })
		if len(still) > 0 {
			wrong[key] = idTexts(truth[key])
			n += len(still)
		}
	}
	if n == 0 || s.bus.WriteHolders(ctx, wrong, s.pulse.longest()) != nil {
		return 0, nil // Redis is away: the next round looks again
	}
	s.repairs.add(RepairMember, n)
	return n, nil
}

// members returns who holds keys by the account of Redis; without those keys for which it did not answer.
func (s *Sweeper) members(ctx context.Context, keys []string) map[string][]string {
	out := make(map[string][]string, len(keys))
	for _, key := range keys {
		holders, err := s.bus.Holders(ctx, key)
		if err != nil {
			return out
		}
		list := make([]string, len(holders))
		for i, h := range holders {
			list[i] = h.ID
		}
		out[key] = list
	}
	return out
}

// differ returns who is among the members or the holders alone.
func differ(members []string, holders []job.ID) []string {
	truth := idTexts(holders)
	var out []string
	for _, m := range members {
		if !slices.Contains(truth, m) {
			out = append(out, m)
		}
	}
	for _, h := range truth {
		if !slices.Contains(members, h) {
			out = append(out, h)
		}
	}
	return out
}

func idTexts(holders []job.ID) []string {
	out := make([]string, len(holders))
	for i, id := range holders {
		out[i] = member(id)
	}
	return out
}

// longest is the longest lease of a living process: for so long members are written.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease
}
