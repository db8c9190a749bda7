package coord_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/coord"
)

// lockModel is what the scripts of locks do, without Redis. Times are in ms.
type lockModel map[string]map[string]int64 // key, member, expiry

func (m lockModel) set(key string) map[string]int64 {
	if m[key] == nil {
		m[key] = map[string]int64{}
	}
	return m[key]
}

func (m lockModel) put(key, id string, until int64) { m.set(key)[id] = max(m.set(key)[id], until) }

// acquire also returns how many others held each granted key before.
func (m lockModel) acquire(jobs []coord.LockJob, now, ttl int64) []string {
	busy, older := make([]string, len(jobs)), map[string]int{}
	for i, j := range jobs {
		for k, key := range j.Keys {
			for id, until := range m.set(key) {
				if until <= now {
					delete(m.set(key), id)
				}
			}
			n := len(m.set(key))
			if _, own := m.set(key)[j.ID]; own && n > j.Limits[k] || !own && n+older[key] >= j.Limits[k] {
				busy[i] = key
				break
			}
		}
		for _, key := range j.Keys {
			if busy[i] == "" {
				m.put(key, j.ID, now+ttl)
			} else {
				older[key]++
			}
		}
	}
	return busy
}

func (m lockModel) holders(key string, now int64) map[string]int64 {
	got := map[string]int64{}
	for id, until := range m[key] {
		if until > now {
			got[id] = until
		}
	}
	return got
}

type lockHistory struct {
	rt    *rapid.T
	c     *clock
	bus   *coord.Bus
	model lockModel
	keys  []string
	ids   []string
}

func TestLocksDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(rt *rapid.T) {
			c, bus := newClock(t, rdb)
			h := &lockHistory{rt: rt, c: c, bus: bus, model: lockModel{}, keys: []string{"a", "a:b", "{a}", "b*\n🙂"}, ids: []string{"1", "2", "3", "4", "5"}}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire": func(*rapid.T) { h.acquire() },
				"renew":   func(*rapid.T) { h.renew() },
				"swap":    func(*rapid.T) { h.swap() },
				"write":   func(*rapid.T) { h.write() },
				"time": func(*rapid.T) {
					c.pass(rt, rapid.SampledFrom([]time.Duration{time.Millisecond, 10 * time.Second, 30 * time.Second, time.Minute}).Draw(rt, "time"))
				},
				"flush": func(*rapid.T) {
					c.flush(rt, c.namespace())
					h.model = lockModel{}
				},
				"": func(*rapid.T) { h.compare() },
			})
		})
	})
}

func (h *lockHistory) ttl() time.Duration {
	return time.Duration(rapid.IntRange(20_000, 60_000).Draw(h.rt, "ttl")) * time.Millisecond
}

func (h *lockHistory) check(what string, err error) {
	if err != nil {
		h.rt.Fatalf("%s: %v", what, err)
	}
}

func (h *lockHistory) acquire() {
	jobs := make([]coord.LockJob, rapid.IntRange(1, 4).Draw(h.rt, "jobs"))
	for i := range jobs {
		jobs[i].ID = rapid.SampledFrom(h.ids).Draw(h.rt, "id")
		jobs[i].Keys = rapid.SliceOfNDistinct(rapid.SampledFrom(h.keys), 1, 3, rapid.ID).Draw(h.rt, "keys")
		for range jobs[i].Keys {
			jobs[i].Limits = append(jobs[i].Limits, rapid.IntRange(1, 3).Draw(h.rt, "limit"))
		}
	}
	ttl := h.ttl()
	before := lockModel{}
	for _, key := range h.keys {
		before[key] = h.model.holders(key, h.c.ms)
	}
	got, err := h.bus.Acquire(context.Background(), jobs, ttl)
	h.check("acquire", err)
	if want := h.model.acquire(jobs, h.c.ms, ttl.Milliseconds()); !slices.Equal(got, want) {
		h.rt.Fatalf("acquire %+v: got %q, want %q", jobs, got, want)
	}
	// Whatever the model says: nobody is let in where as many others hold as the limit allows.
	for i, j := range jobs {
		for k, key := range j.Keys {
			if got[i] != "" {
				continue
			}
			before[key][j.ID] = 0
			if n := len(before[key]); n > j.Limits[k] {
				h.rt.Fatalf("key %q has %d holders, limit %d", key, n, j.Limits[k])
			}
		}
	}
}

func (h *lockHistory) renew() {
	members := make([]coord.Member, rapid.IntRange(1, 4).Draw(h.rt, "members"))
	ttl := h.ttl()
	for i := range members {
		m := coord.Member{Key: rapid.SampledFrom(h.keys).Draw(h.rt, "key"), ID: rapid.SampledFrom(h.ids).Draw(h.rt, "id")}
		members[i] = m
		if _, ok := h.model.set(m.Key)[m.ID]; ok {
			h.model.put(m.Key, m.ID, h.c.ms+ttl.Milliseconds())
		}
	}
	h.check("renew", h.bus.RenewLocks(context.Background(), members, ttl))
}

func (h *lockHistory) swap() {
	swaps := make([]coord.Swap, rapid.IntRange(1, 4).Draw(h.rt, "swaps"))
	ttl := h.ttl()
	for i := range swaps {
		ids := rapid.SampledFrom(append([]string{""}, h.ids...))
		s := coord.Swap{Key: rapid.SampledFrom(h.keys).Draw(h.rt, "key"), Out: ids.Draw(h.rt, "out"), In: ids.Draw(h.rt, "in")}
		swaps[i] = s
		delete(h.model.set(s.Key), s.Out)
		if s.In != "" {
			h.model.put(s.Key, s.In, h.c.ms+ttl.Milliseconds())
		}
	}
	h.check("swap", h.bus.SwapLocks(context.Background(), swaps, ttl))
}

func (h *lockHistory) write() {
	truth := rapid.MapOfN(rapid.SampledFrom(h.keys), rapid.SliceOfNDistinct(rapid.SampledFrom(h.ids), 0, 3, rapid.ID), 1, 3).Draw(h.rt, "truth")
	ttl := h.ttl()
	was := h.bus.Stats()
	var wrong, missing uint64
	for key, ids := range truth {
		had := h.model.holders(key, h.c.ms)
		h.model[key] = nil
		for _, id := range ids {
			if _, ok := had[id]; !ok {
				missing++
			}
			delete(had, id)
			h.model.put(key, id, h.c.ms+ttl.Milliseconds())
		}
		wrong += uint64(len(had))
	}
	h.check("write", h.bus.WriteHolders(context.Background(), truth, ttl))
	if s := h.bus.Stats(); s.LocksWrong-was.LocksWrong != wrong || s.LocksMissing-was.LocksMissing != missing {
		h.rt.Fatalf("stats: got %d wrong, %d missing, want %d and %d", s.LocksWrong-was.LocksWrong, s.LocksMissing-was.LocksMissing, wrong, missing)
	}
}

func (h *lockHistory) compare() {
	key := rapid.SampledFrom(h.keys).Draw(h.rt, "look at")
	holders, err := h.bus.Holders(context.Background(), key)
	h.check("holders", err)
	got := map[string]int64{}
	for _, o := range holders {
		got[o.ID] = o.Until.UnixMilli()
	}
	if want := h.model.holders(key, h.c.ms); fmt.Sprint(got) != fmt.Sprint(want) {
		h.rt.Fatalf("key %q: got %v, want %v", key, got, want)
	}
}
