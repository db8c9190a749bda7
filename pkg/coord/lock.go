package coord

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// maxKey is the most bytes that the name of a lock or rate may have.
const maxKey = 255

// One call of a script takes so many keys and members; more go in several calls, or a long batch would hold the server up.
const (
	maxKeys    = 1024
	maxMembers = 1000
	maxHolders = 10_000 // that Holders returns
)

// LockJob is a job that wants locks.
type LockJob struct {
	ID     string
	Keys   []string // at most 255 bytes each, any bytes; all different
	Limits []int    // holders that each key may have, in step with Keys. Nil: one each
}

// Acquire asks Redis for the locks of jobs: all keys of a job or none, in the order given. A refused job keeps the later
// ones of the call (up to 1,024 keys) off its keys (`batchOrder`). A job that holds a key already keeps it, unless the
// key has more holders than this job's limit allows. What is granted lasts for ttl; the members expire by themselves.
//
// busy[i] is the first key of jobs[i] that has no room, and empty for a job that was granted. It is advice: a grant must be
// confirmed by Postgres, a refusal may be stale. Without Redis, and with an error, busy is as long as jobs and all empty;
// after an error some of the jobs may stand in Redis until ttl is over.
func (b *Bus) Acquire(ctx context.Context, jobs []LockJob, ttl time.Duration) (busy []string, err error) {
	busy = make([]string, len(jobs))
	for _, j := range jobs {
		if j.Limits != nil && len(j.Limits) != len(j.Keys) {
			return busy, fmt.Errorf("acquire: %d limits for %d keys", len(j.Limits), len(j.Keys))
		}
		if err := checkKeys("acquire", j.Keys...); err != nil {
			return busy, err
		}
	}
	if !b.Enabled() {
		return busy, nil
	}
	for from, n := 0, 0; from < len(jobs); from += n {
		n = fit(jobs[from:], func(j LockJob) int { return len(j.Keys) })
		part := jobs[from : from+n]
		got, err := b.acquirePart(ctx, part, ttl)
		if err != nil {
			return make([]string, len(jobs)), err
		}
		for i, k := range got {
			if k > 0 {
				busy[from+i] = part[i].Keys[k-1]
			}
		}
	}
	return busy, nil
}

func (b *Bus) acquirePart(ctx context.Context, jobs []LockJob, ttl time.Duration) ([]int64, error) {
	var names []string
	args := []any{millis(ttl)}
	for _, j := range jobs {
		args = append(args, j.ID, len(j.Keys))
		for i, key := range j.Keys {
			limit := 1
			if j.Limits != nil {
				limit = j.Limits[i]
			}
			names = append(names, b.keys.lock(key))
			args = append(args, limit)
		}
	}
	return ask(ctx, b, "acquire", func(ctx context.Context) ([]int64, error) {
		got, err := acquireScript.Run(ctx, b.rdb, names, args...).Int64Slice()
		return got, wrongLength(err, "acquire", len(got), len(jobs))
	})
}

// Member is a job's place among the holders of a key.
type Member struct {
	Key string
	ID  string
}

// RenewLocks lets members hold for ttl from now. One that is gone stays gone, since its place may be another's by now; the
// truth is in Postgres and comes back with WriteHolders. It never shortens a hold. Safe to repeat.
func (b *Bus) RenewLocks(ctx context.Context, members []Member, ttl time.Duration) error {
	for part := range slices.Chunk(members, maxMembers) {
		names := make([]string, len(part))
		args := make([]any, 1, 1+len(part))
		args[0] = millis(ttl)
		for i, m := range part {
			if err := checkKeys("renew locks", m.Key); err != nil {
				return err
			}
			names[i] = b.keys.lock(m.Key)
			args = append(args, m.ID)
		}
		found, err := ask(ctx, b, "renew locks", func(ctx context.Context) (int64, error) {
			return renewScript.Run(ctx, b.rdb, names, args...).Int64()
		})
		if err != nil {
			return err
		}
		if b.Enabled() {
			b.count.locksGone.Add(uint64(max(0, int64(len(part))-found)))
		}
	}
	return nil
}

// Swap takes the job Out from the holders of Key and puts In in its place. Empty: none.
type Swap struct {
	Key, Out, In string
}

// SwapLocks gives locks back and hands them over. Jobs leave by name, so a second release is harmless. In was admitted by
// Postgres, which counts before what Redis thinks: it becomes a holder, for ttl, whether Out was there or not.
func (b *Bus) SwapLocks(ctx context.Context, swaps []Swap, ttl time.Duration) error {
	for part := range slices.Chunk(swaps, maxMembers) {
		names := make([]string, len(part))
		args := make([]any, 1, 1+2*len(part))
		args[0] = millis(ttl)
		for i, s := range part {
			if err := checkKeys("swap locks", s.Key); err != nil {
				return err
			}
			names[i] = b.keys.lock(s.Key)
			args = append(args, s.Out, s.In)
		}
		err := b.do(ctx, "swap locks", func(ctx context.Context) error {
			return releaseScript.Run(ctx, b.rdb, names, args...).Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// holderPart is a part of a key's holders for one call of write.lua.
type holderPart struct {
	key   string
	first bool // replaces the set; others add to it
	ids   []string
}

// WriteHolders writes the truth from Postgres: each key's holders are those given, for ttl, and nobody else. Grants that
// Postgres has not seen yet are dropped too; their jobs are decided there. Stats counts what was wrong and what missing.
func (b *Bus) WriteHolders(ctx context.Context, holders map[string][]string, ttl time.Duration) error {
	var parts []holderPart
	for key, ids := range holders {
		if err := checkKeys("write holders", key); err != nil {
			return err
		}
		if len(ids) == 0 {
			parts = append(parts, holderPart{key: key, first: true})
		}
		for i := 0; i < len(ids); i += maxMembers {
			parts = append(parts, holderPart{key: key, first: i == 0, ids: ids[i:min(i+maxMembers, len(ids))]})
		}
	}
	for from, n := 0, 0; from < len(parts); from += n {
		n = fit(parts[from:], func(p holderPart) int { return 1 + len(p.ids) })
		if err := b.writePart(ctx, parts[from:from+n], ttl); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) writePart(ctx context.Context, parts []holderPart, ttl time.Duration) error {
	var names []string
	args := []any{millis(ttl)}
	for _, p := range parts {
		names = append(names, b.keys.lock(p.key))
		first := 0
		if p.first {
			first = 1
		}
		args = append(args, first, len(p.ids))
		for _, id := range p.ids {
			args = append(args, id)
		}
	}
	return b.do(ctx, "write holders", func(ctx context.Context) error {
		got, err := writeScript.Run(ctx, b.rdb, names, args...).Int64Slice()
		if err = wrongLength(err, "write", len(got), 2); err != nil {
			return err
		}
		b.count.locksWrong.Add(uint64(got[0]))
		b.count.locksMissing.Add(uint64(got[1]))
		return nil
	})
}

// Holder is a member of a key's holders as Redis has it.
type Holder struct {
	ID    string
	Until time.Time // on the Redis clock, to the millisecond
}

// Holders returns who holds key in Redis, who expires first in front, 10,000 at most. For people who look: what counts is
// in Postgres.
func (b *Bus) Holders(ctx context.Context, key string) ([]Holder, error) {
	if err := checkKeys("holders", key); err != nil {
		return nil, err
	}
	got, err := ask(ctx, b, "holders", func(ctx context.Context) ([]string, error) {
		return holdersScript.Run(ctx, b.rdb, []string{b.keys.lock(key)}, maxHolders).StringSlice()
	})
	if err != nil {
		return nil, err
	}
	holders := make([]Holder, 0, len(got)/2)
	for i := 0; i+1 < len(got); i += 2 {
		ms, err := strconv.ParseFloat(got[i+1], 64) // a score, which need not be written as an integer
		if err != nil {
			return nil, fmt.Errorf("holders: %w", err)
		}
		holders = append(holders, Holder{ID: got[i], Until: time.UnixMilli(int64(ms)).UTC()})
	}
	return holders, nil
}
