package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// What one statement takes: enough to make its fixed costs vanish, and little enough to be over in some 100 ms.
const (
	maxJobs  = 1000
	maxBytes = 4 << 20
)

// Enqueued says what became of one job.
type Enqueued struct {
	// ID is the job's, or that of the job to which its unique key belongs: always one that is committed, or of the caller's own
	// transaction.
	ID job.ID
	// Duplicate is true if a job with this id, or with this unique key, was there before. Then nothing was changed.
	Duplicate bool
	// Replaced is the job that was ended for this one (job.Replace). Zero: none was.
	Replaced job.ID
}

// draft is a job that is checked but not sent.
type draft struct {
	job  pgstore.NewJob // ID is zero until it is minted
	own  bool           // the id is the caller's: it must stay
	size int            // bytes, about

	fails, same bool // of a unique job: what makes a lost key an error
}

// draft checks a job and copies what the caller may change after the call: a statement may be under way for longer.
func (c *Client) draft(ctx context.Context, args job.Args, options ...job.Options) (draft, error) {
	kind, payload, err := job.Encode(args)
	if err != nil {
		return draft{}, err
	}
	if _, ok := args.(job.Raw); ok {
		payload = bytes.Clone(payload)
	}
	o := job.OptionsOf(args)
	for _, over := range options {
		o = o.Merge(over)
	}
	if o, err = o.Complete(); err != nil {
		return draft{}, err
	}
	d := draft{own: !o.ID.IsZero(), job: pgstore.NewJob{
		ID: o.ID, Kind: kind, Queue: o.Queue, Payload: payload, Priority: o.Priority, MaxAttempts: o.MaxAttempts,
		Delay: o.Delay, ScheduledAt: o.ScheduledAt, ExpiresIn: o.ExpiresIn, Timeout: o.Timeout, Mode: o.Mode,
		Backoff: o.Backoff.String(), Keys: slices.Clone(o.Keys), Tags: slices.Clone(o.Tags), Metadata: maps.Clone(o.Metadata),
		OnDiscard: o.OnDiscard, Known: !o.ID.IsZero(),
	}}
	if err := d.unique(&o, args, payload); err != nil {
		return draft{}, err
	}
	d.job.Parent, d.job.Trace = c.lineage(ctx)
	d.size = 200 + len(kind) + len(o.Queue) + len(payload)
	for _, k := range d.job.Keys {
		d.size += 2*len(k.Name()) + 20 // in the log and in the live row
	}
	for _, tag := range d.job.Tags {
		d.size += len(tag)
	}
	for k, v := range d.job.Metadata {
		d.size += len(k) + len(v)
	}
	return d, nil
}

// drafts checks the jobs of a call. A *job.FieldError has the index of the job it is about.
func (c *Client) drafts(ctx context.Context, specs []job.Spec) ([]draft, error) {
	if len(specs) > job.MaxBatch {
		return nil, &job.FieldError{Field: "jobs", Got: fmt.Sprint(len(specs)), Limit: fmt.Sprintf("at most %d a call", job.MaxBatch)}
	}
	drafts := make([]draft, len(specs))
	for i, spec := range specs {
		var err error
		if drafts[i], err = c.draft(ctx, spec.Args, spec.Options); err != nil {
			return nil, at(i, err)
		}
	}
	return drafts, nil
}

// at notes in a *job.FieldError which job of a call it is about.
func at(i int, err error) error {
	var field *job.FieldError
	if errors.As(err, &field) {
		field.Index = i
	}
	return err
}

// ready gives ids to drafts once the clock is known.
func (c *Client) ready(ctx context.Context, drafts []draft) error {
	if err := c.clock.ensure(ctx); err != nil {
		return fmt.Errorf("enqueue: %w", scrub(err))
	}
	return c.mint(drafts)
}

// sentBefore notes that the ids of drafts were sent. Nothing can have been stored, or we would not send them again; but
// should a driver be wrong about that, the jobs are still stored once.
func sentBefore(drafts []draft) {
	for i := range drafts {
		drafts[i].job.Known = true
	}
}

// mint gives ids to the drafts that have none, or one of ours, and checks those of the caller's. The clock is known.
func (c *Client) mint(drafts []draft) error {
	for i := range drafts {
		d := &drafts[i]
		if !d.own {
			d.job.ID, d.job.Known = c.clock.ids.Load().New(), false
			continue
		}
		if err := c.clock.check(d.job.ID, 0); err != nil {
			return at(i, err)
		}
	}
	return nil
}

func idsOf(drafts []draft) []job.ID {
	ids := make([]job.ID, len(drafts))
	for i := range drafts {
		ids[i] = drafts[i].job.ID
	}
	return ids
}

// batches cuts jobs, sorted by id, into what one statement takes: first those that are not unique. An id that comes twice is
// sent once, as it comes first.
func batches(drafts []draft) [][]pgstore.NewJob {
	order := make([]*draft, len(drafts))
	for i := range drafts {
		order[i] = &drafts[i]
	}
	slices.SortStableFunc(order, func(a, b *draft) int { return bytes.Compare(a.job.ID[:], b.job.ID[:]) })
	order = slices.CompactFunc(order, func(a, b *draft) bool { return a.job.ID == b.job.ID })
	slices.SortStableFunc(order, func(a, b *draft) int { return cmp.Compare(a.kindOfStatement(), b.kindOfStatement()) })
	var (
		out  [][]pgstore.NewJob
		part []pgstore.NewJob
		size int
	)
	for i, d := range order {
		if len(part) == maxJobs || len(part) > 0 && (size+d.size > maxBytes || d.kindOfStatement() != order[i-1].kindOfStatement()) {
			out, part, size = append(out, part), nil, 0
		}
		part, size = append(part, d.job), size+d.size
	}
	return append(out, part)
}

func (d *draft) kindOfStatement() int {
	if d.job.Unique != nil {
		return 1
	}
	return 0
}

// isDuplicate reports whether id was there before, by the answer to its statement.
func isDuplicate(out *pgstore.Enqueued, id job.ID) bool {
	// One that was inserted by a transaction that began after our statement and committed before it is not listed.
	return out.Inserted == 0 || out.Duplicates[id]
}
