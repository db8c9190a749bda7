package client

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// ErrUndecided reports that a unique key belongs to a transaction that has not ended within Config.Timeout. Nothing was stored;
// trying again is safe.
var ErrUndecided = pgstore.ErrUndecided

// DuplicateError reports that the unique key of a job belongs to another one, where that is an error (job.Fail), or where that one
// has other args (Unique.SameArgs). Nothing of the call was stored; of a call in a transaction, roll that back.
type DuplicateError struct {
	ID      job.ID // whose key it is
	Differs bool   // it has other args
	Index   int    // position in EnqueueMany's slice; 0 for a single job
}

func (e *DuplicateError) Error() string {
	if e.Differs {
		return fmt.Sprintf("client: the unique key belongs to job %s, which has other args", e.ID)
	}
	return fmt.Sprintf("client: the unique key belongs to job %s", e.ID)
}

// unique checks and hashes what o says about d's job.
func (d *draft) unique(o *job.Options, args job.Args, payload []byte) error {
	u := o.Unique
	if !u.Applies() {
		return nil
	}
	key, content, err := u.Hash(args, payload)
	if err != nil {
		return err
	}
	d.fails, d.same = u.OnConflict == job.Fail, u.SameArgs
	d.job.Unique = &pgstore.Unique{Key: key, Args: content, For: u.For, Waiting: u.While == job.Waiting, Replace: u.OnConflict == job.Replace}
	return nil
}

// enqueueAlone stores one unique job in a statement of its own: it may have to wait for others, and those that are coalesced
// must not.
func (c *Client) enqueueAlone(ctx context.Context, d draft) (Enqueued, error) {
	return first(c.sendMany(ctx, []draft{d}))
}

// pass lets a call with unique jobs among drafts through the gate.
func (g *gate) pass(ctx context.Context, drafts []draft, deadline time.Time) (leave func(), err error) {
	key := ""
	for i := range drafts {
		if u := drafts[i].job.Unique; u != nil {
			if len(drafts) == 1 {
				key = drafts[i].job.Kind + "\x00" + string(u.Key)
			}
			bounded, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			leave, err = g.enter(bounded, key)
			if err != nil && ctx.Err() == nil { // others of this process wait for the same all the time
				err = ErrUndecided
			}
			return leave, err
		}
	}
	return func() {}, nil
}

// put stores jobs that one statement takes: all of them unique, or none.
func put(ctx context.Context, store *pgstore.Store, part []pgstore.NewJob) (pgstore.Enqueued, error) {
	if part[0].Unique != nil {
		return store.EnqueueUnique(ctx, part)
	}
	return store.Enqueue(ctx, part)
}

// refused returns the *DuplicateError of the first of a call's jobs that may not lose and has lost.
func refused(drafts []draft, out map[job.ID]pgstore.Winner) error {
	if len(out) == 0 {
		return nil
	}
	for i := range drafts {
		d := &drafts[i]
		w, lost := out[d.job.ID]
		if lost && w.ID != d.job.ID && (d.fails || d.same && w.Differs) {
			return &DuplicateError{ID: w.ID, Differs: w.Differs, Index: i}
		}
	}
	return nil
}

// isRefusing reports whether a job of several may make its call fail: then they are stored in a transaction.
func isRefusing(drafts []draft) bool {
	for i := range drafts {
		if len(drafts) > 1 && (drafts[i].fails || drafts[i].same) {
			return true
		}
	}
	return false
}

// sums are the answers to the statements of a call.
type sums struct {
	duplicates map[job.ID]bool
	winners    map[job.ID]pgstore.Winner
	replaced   map[job.ID]job.ID
	freed      []string
}

func (s *sums) add(part []pgstore.NewJob, out *pgstore.Enqueued) {
	for i := range part {
		id := part[i].ID
		if !isDuplicate(out, id) {
			continue
		}
		if s.duplicates == nil {
			s.duplicates = map[job.ID]bool{}
		}
		s.duplicates[id] = true
	}
	for id, w := range out.Winners {
		if s.winners == nil {
			s.winners = map[job.ID]pgstore.Winner{}
		}
		s.winners[id] = w
	}
	for id, old := range out.Replaced {
		if s.replaced == nil {
			s.replaced = map[job.ID]job.ID{}
		}
		s.replaced[id] = old
	}
	s.freed = append(s.freed, out.Freed...)
}

// results turns the answers into the results of the call's jobs, in its order.
func (s *sums) results(drafts []draft) []Enqueued {
	out := make([]Enqueued, len(drafts))
	seen := map[job.ID]bool{} // of ids given by the caller: ours differ
	for i := range drafts {
		id := drafts[i].job.ID
		out[i] = Enqueued{ID: id, Duplicate: s.duplicates[id] || seen[id], Replaced: s.replaced[id]}
		if w, lost := s.winners[id]; lost {
			out[i].ID = w.ID
		}
		if drafts[i].own {
			seen[id] = true
		}
	}
	return out
}

// sendOne stores what fits into one statement, which is its own transaction.
func (c *Client) sendOne(ctx context.Context, conn *pgxpool.Conn, drafts []draft, part []pgstore.NewJob) answer {
	sent := time.Now()
	out, err := put(context.WithoutCancel(ctx), c.store.On(conn), part)
	if err != nil {
		return c.unsent(drafts, err)
	}
	c.clock.learn(out.Now, sent)
	var s sums
	s.add(part, &out)
	if err := refused(drafts, out.Winners); err != nil {
		return answer{err: err}
	}
	c.hints.announce(part, &out, false)
	c.pass(ctx, s.freed)
	return answer{results: s.results(drafts)}
}
