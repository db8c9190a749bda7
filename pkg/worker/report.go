package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

const (
	showEvery = 250 * time.Millisecond // progress goes to Redis
	saveEvery = time.Second            // a checkpoint goes to Postgres
	saveBound = 2 * time.Second        // for the last one, before the attempt's result
)

// Progress says how far the job is: 0 to 100 percent, a value outside is moved to the nearer end, and a note of up to 256 bytes, cut
// there. Others see the last value within a quarter of a second, by Redis; without Redis they see nothing until the attempt
// ends. The last value is kept with the job. It never waits, so it may be called as often as one likes.
func (j *Job[T]) Progress(percent int, note string) {
	if j.task != nil && j.task.worker != nil {
		j.task.worker.reports.progress(j.task, job.Progress{
			Percent: min(max(percent, 0), 100), Note: job.SanitizeText(note, job.MaxNoteBytes),
		})
	}
}

// Checkpoint keeps v, as JSON of at most 64 KiB, for the next attempt, whatever ends this one: LoadCheckpoint reads it. It is
// written at most once a second, in the background, the last value when the handler returns; a process that dies loses
// what came since the last write. The error is a *job.FieldError, or says that v cannot be encoded.
func (j *Job[T]) Checkpoint(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	if len(data) > job.MaxCheckpointBytes {
		return &job.FieldError{Field: "checkpoint", Got: fmt.Sprintf("%d bytes", len(data)), Limit: fmt.Sprintf("at most %d bytes", job.MaxCheckpointBytes)}
	}
	if j.task != nil && j.task.worker != nil {
		j.task.worker.reports.checkpoint(j.task, data)
	}
	return nil
}

// LoadCheckpoint decodes into v what an earlier attempt has kept with Checkpoint, and reports whether there was anything. It
// reads from the database, except in a job's first attempt.
func (j *Job[T]) LoadCheckpoint(ctx context.Context, v any) (bool, error) {
	if j.task == nil || j.task.worker == nil || j.task.verdicts != nil || j.Fence <= 1 {
		return false, nil // nobody has had it before
	}
	r, err := j.task.worker.client.Store().Reported(ctx, j.ID)
	if err != nil || r.Checkpoint == nil {
		return false, err
	}
	if err := json.Unmarshal(r.Checkpoint, v); err != nil {
		return false, fmt.Errorf("decode checkpoint: %w", err)
	}
	return true, nil
}

// report is what one task has said and what of it is still to be written.
type report struct {
	progress   *job.Progress
	checkpoint []byte // nil: nothing new
	savedAt    time.Time
	saver      *time.Timer
	saving     sync.Mutex // held while one is written: the last one must come last
}

// reports carries what handlers say to the stores. It has no goroutine of its own: timers that the calls arm do the work.
type reports struct {
	w     *Worker
	mu    sync.Mutex
	of    map[*task]*report
	dirty map[*task]bool // have progress to show
	armed bool
	any   atomic.Bool // somebody has ever said something: else the end of a job costs no lock
}

func (r *reports) init(w *Worker) {
	r.w, r.of, r.dirty = w, make(map[*task]*report), make(map[*task]bool)
}

func (r *reports) reportLocked(t *task) *report {
	p := r.of[t]
	if p == nil {
		p = &report{}
		r.of[t] = p
		r.any.Store(true)
	}
	return p
}

func (r *reports) progress(t *task, p job.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.silent || t.isDecided() {
		return // its attempt is over: its job may be somebody else's
	}
	r.reportLocked(t).progress = &p
	r.dirty[t] = true
	if !r.armed && (t.say != nil || r.w.bus.Enabled()) {
		r.armed = true
		time.AfterFunc(showEvery, r.show)
	}
}

// show sends the last values of all tasks in one round trip.
func (r *reports) show() {
	r.mu.Lock()
	r.armed = false
	all := make([]coord.Progress, 0, len(r.dirty))
	for t := range r.dirty {
		p := r.of[t]
		switch {
		case p == nil || p.progress == nil:
		case t.say != nil:
			t.say(frameProgress, p.progress, nil)
		default:
			all = append(all, coord.Progress{ID: t.row.ID.String(), Percent: p.progress.Percent, Note: p.progress.Note})
		}
	}
	clear(r.dirty)
	r.mu.Unlock()
	_ = r.w.bus.ShowProgress(context.Background(), all) // dropped when Redis is away: the next value will do
}

func (r *reports) checkpoint(t *task, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.silent || t.isDecided() || t.verdicts != nil {
		return
	}
	p := r.reportLocked(t)
	p.checkpoint = data
	if p.saver == nil {
		p.saver = time.AfterFunc(max(time.Until(p.savedAt.Add(saveEvery)), 0), func() { r.save(t, p) })
	}
}

// save writes the newest checkpoint of t. One that fails is tried again with the next, a second later.
func (r *reports) save(t *task, p *report) {
	p.saving.Lock()
	defer p.saving.Unlock()
	r.mu.Lock()
	data := p.checkpoint
	p.checkpoint, p.savedAt, p.saver = nil, time.Now(), nil
	r.mu.Unlock()
	if data == nil {
		return
	}
	if t.say != nil {
		t.say(frameCheckpoint, nil, data)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.session.ctx), r.w.client.Store().Timeout())
	defer cancel()
	err := r.w.client.Store().Report(ctx, t.session.id, t.held(), pgstore.Report{Checkpoint: data})
	if err == nil || errors.Is(err, pgstore.ErrSessionLost) {
		return // written, or the claim has ended: what it says counts no more
	}
	r.w.log.Warn("write checkpoint", "job", t.row.ID, "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.checkpoint == nil && r.of[t] == p {
		p.checkpoint = data
		p.saver = time.AfterFunc(saveEvery, func() { r.save(t, p) })
	}
}

// end writes what is left when the handler has returned, before its result: the next attempt may start at once. It waits
// for two seconds at most: a checkpoint that the database does not take is lost rather than the slot.
func (r *reports) end(t *task) {
	if !r.any.Load() {
		return
	}
	r.mu.Lock()
	t.silent = true
	p := r.of[t]
	delete(r.of, t)
	delete(r.dirty, t)
	if p == nil {
		r.mu.Unlock()
		return
	}
	if p.saver != nil {
		p.saver.Stop()
	}
	r.mu.Unlock()
	if t.verdicts != nil || t.isFinished() || t.isDecided() {
		return // without a database, or its row is not ours any more
	}
	p.saving.Lock() // one may be on its way
	defer p.saving.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.session.ctx), saveBound)
	defer cancel()
	r.mu.Lock()
	last := pgstore.Report{Checkpoint: p.checkpoint, Progress: p.progress}
	r.mu.Unlock()
	if t.say != nil {
		t.sayLast(&last)
		return
	}
	if last.Checkpoint != nil || last.Progress != nil {
		if err := r.w.client.Store().Report(ctx, t.session.id, t.held(), last); err != nil && !errors.Is(err, pgstore.ErrSessionLost) {
			r.w.log.Warn("write the last checkpoint and progress", "job", t.row.ID, "error", err)
		}
	}
	if last.Progress != nil {
		_ = r.w.bus.HideProgress(ctx, t.row.ID.String()) // else it goes by itself
	}
}
