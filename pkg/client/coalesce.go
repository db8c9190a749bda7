package client

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// maxFlushers is how many statements of single jobs are under way at once: while one commits the next is filled.
const maxFlushers = 2

// leastWait is how long a flusher waits for a connection though the time of its oldest job is up.
const leastWait = time.Second

// coalescer gathers the jobs of concurrent Enqueue calls. A flusher takes all that waits as soon as it has a connection;
// what arrives while it is at work goes with the next one. Flushers end when nothing waits.
type coalescer struct {
	client *Client

	mu      sync.Mutex
	waiting list.List // of *entry, oldest first
	running int       // flushers
	ready   int       // of them, those that have not yet taken their batch: they will take what comes now
}

// entry is the job of one Enqueue call. All but draft, deadline and done is guarded by the coalescer's mu until done is
// closed.
type entry struct {
	draft
	deadline time.Time // until when it may wait and be tried again
	done     chan struct{}

	elem   *list.Element // in waiting; nil: not there
	isSent bool
	isLeft bool  // the caller has gone
	tried  error // why it was given back; nil: it was not
	result Enqueued
	err    error
}

func (q *coalescer) add(e *entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e.elem = q.waiting.PushBack(e)
	if q.ready == 0 {
		q.startLocked()
	}
}

// startLocked starts a flusher if one more is allowed.
func (q *coalescer) startLocked() {
	if q.running < maxFlushers {
		q.running++
		q.ready++
		q.client.background(q.run)
	}
}

// leave is called by a caller whose context has ended because of cause. A job that has not been sent is taken back.
func (q *coalescer) leave(e *entry, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-e.done:
		return // the answer came first
	default:
	}
	if e.isSent {
		e.err = &UnknownError{IDs: []job.ID{e.job.ID}, Err: cause}
	} else {
		q.dropLocked(e)
		e.err = fmt.Errorf("enqueue: %w", cause)
	}
	e.isLeft = true
	close(e.done)
}

func (q *coalescer) dropLocked(e *entry) {
	if e.elem != nil {
		q.waiting.Remove(e.elem)
		e.elem = nil
	}
}

// settleLocked gives the caller its result, unless it has gone.
func (q *coalescer) settleLocked(e *entry, result Enqueued, err error) {
	if e.isLeft {
		return
	}
	e.result, e.err = result, err
	close(e.done)
}

func (q *coalescer) fail(batch []*entry, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range batch {
		q.settleLocked(e, Enqueued{}, err)
	}
}

// run is a flusher: it takes batches until nothing waits.
func (q *coalescer) run() {
	for failures := 0; ; {
		err := q.flush()
		if q.isIdle() {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		pause(context.Background(), backoff(failures))
		failures++
	}
}

// isIdle reports whether nothing waits, and signs the flusher off in the same breath: whoever comes next starts another.
func (q *coalescer) isIdle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() > 0 {
		return false
	}
	q.running--
	q.ready--
	return true
}

// flush sends one batch. It is entered and left as a ready flusher. The error is one after which the jobs that wait are
// to be tried again.
func (q *coalescer) flush() error {
	first, ok := q.deadline()
	if !ok {
		return nil
	}
	// Never for less than a moment: after an outage under load somebody's time has always just run out, and a connection that
	// has to be made takes longer than what the next one has left. Nobody would ever get one.
	if least := time.Now().Add(leastWait); first.Before(least) {
		first = least
	}
	conn, err := q.client.acquire(context.Background(), first)
	if err != nil {
		return q.refuse(err)
	}
	defer conn.Release()
	runtime.Gosched() // those that the last batch has woken are about to come back: let them come along
	batch := q.take()
	f := flush{queue: q, conn: conn, store: q.client.store.On(conn)}
	f.send(batch, false)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready++
	return f.failed
}

// deadline returns that of the oldest waiting job; false if there is none.
func (q *coalescer) deadline() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	front := q.waiting.Front()
	if front == nil {
		return time.Time{}, false
	}
	return front.Value.(*entry).deadline, true
}

// refuse handles that there is no connection: jobs whose time is up fail; all do if trying again cannot help.
func (q *coalescer) refuse(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	lasts := isTransient(err) || isBusy(err)
	for elem := q.waiting.Front(); elem != nil; {
		e := elem.Value.(*entry)
		elem = elem.Next()
		if lasts && now.Before(e.deadline) {
			continue
		}
		q.dropLocked(e)
		reason := err
		if e.tried != nil && isBusy(err) { // the time went by on something else
			reason = e.tried
		}
		q.settleLocked(e, Enqueued{}, fmt.Errorf("enqueue: %w", scrub(reason)))
	}
	return err
}

// take takes what waits, as much as a statement holds, sorted by id.
func (q *coalescer) take() []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready--
	var (
		batch []*entry
		size  int
		own   = map[job.ID]bool{}
	)
	for elem := q.waiting.Front(); elem != nil && len(batch) < maxJobs; {
		e := elem.Value.(*entry)
		elem = elem.Next()
		if len(batch) > 0 && size+e.size > maxBytes {
			break
		}
		if e.own {
			// The same id again waits for the next statement, which says whether it is a duplicate.
			if own[e.job.ID] {
				continue
			}
			own[e.job.ID] = true
		}
		q.dropLocked(e)
		e.isSent = true
		batch, size = append(batch, e), size+e.size
	}
	if q.waiting.Len() > 0 && q.ready == 0 {
		q.startLocked()
	}
	slices.SortFunc(batch, func(a, b *entry) int { return bytes.Compare(a.job.ID[:], b.job.ID[:]) })
	return batch
}

// giveBack puts jobs of which nothing was stored back to the front. Those whose time is up fail with err; those whose
// caller has gone are dropped: it was told that they may not be there.
func (q *coalescer) giveBack(batch []*entry, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, e := range slices.Backward(batch) {
		e.isSent, e.job.Known = false, true
		switch {
		case e.isLeft:
		case now.Before(e.deadline):
			e.elem, e.tried = q.waiting.PushFront(e), err
		default:
			q.settleLocked(e, Enqueued{}, scrub(err))
		}
	}
}

// stored tells the callers of a batch that was committed.
func (q *coalescer) stored(batch []*entry, out *pgstore.Enqueued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range batch {
		q.settleLocked(e, Enqueued{ID: e.job.ID, Duplicate: isDuplicate(out, e.job.ID)}, nil)
	}
}
