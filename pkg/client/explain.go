package client

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Reason is one thing that keeps a job from running.
type Reason string

// The reasons.
const (
	WhyRuns         Reason = "running"          // it does run
	WhyEnded        Reason = "ended"            // it has ended
	WhyBlocked      Reason = "blocked"          // a lock that it needs is held: Locks
	WhyRate         Reason = "rate"             // a rate that it counts for is closed or has no room before it is due: Rates
	WhyScheduled    Reason = "scheduled"        // it is not due yet: the time that its producer chose
	WhyRetrying     Reason = "retrying"         // it is not due yet: the wait after a failed attempt
	WhyQueuePaused  Reason = "queue paused"     //
	WhyKindPaused   Reason = "kind paused"      //
	WhyNoWorker     Reason = "no worker"        // no living worker serves the queue
	WhyUnknownKind  Reason = "unknown kind"     // no living worker that serves the queue knows the kind
	WhyQueueLimit   Reason = "queue limit"      // so many jobs of its queue run as may
	WhyQueueRate    Reason = "queue rate"       // so many jobs of its queue have started in the last window as may
	WhyCancelAsked  Reason = "cancel asked"     // somebody has cancelled it: its handler was told
	WhySuspect      Reason = "suspect"          // two processes have died with it: it waits, and runs alone
	WhyTurn         Reason = "waits its turn"   // due, and jobs before it keep the workers busy
	WhyAboutToStart Reason = "about to start"   // due, and nothing is in its way
	WhyNextInLine   Reason = "next in line"     // it was given its locks and waits for a worker
	WhyNoJobs       Reason = "nothing waits"    // of a queue: there is no job in it that is due
	WhyFlows        Reason = "jobs are started" // of a queue: nothing is in the way of those that wait
)

// Explanation is why a job does not run, or how it does. Times are of the database clock at Now.
type Explanation struct {
	Now time.Time `json:"now"`
	// Why are the reasons, the one that counts first.
	Why []Reason `json:"why"`
	// Job is the job, without its payload and result.
	Job job.Row `json:"job"`
	// Waits is how long it is due already; zero: it is not, or does not wait.
	Waits time.Duration `json:"waits_ns,omitempty"`
	// DueIn is how long until it is due; zero: it is.
	DueIn time.Duration `json:"due_in_ns,omitempty"`
	// Locks and Rates are its keys as they stand.
	Locks []LockState  `json:"locks,omitempty"`
	Rates []RateDetail `json:"rates,omitempty"`
	// Queue is the state of its queue, and KindPausedFor how long its kind is paused.
	Queue         QueueState    `json:"queue"`
	KindPaused    bool          `json:"kind_paused,omitempty"`
	KindPausedFor time.Duration `json:"kind_paused_ns,omitempty"`
	// Serve, Know and Both are how many living workers serve its queue, know its kind, and do both.
	Serve int `json:"workers_of_queue"`
	Know  int `json:"workers_of_kind"`
	Both  int `json:"workers"`
	// Mode is the mode that the job asks for. Workers do not say in the database which they accept: a job that asks for more than
	// inline and does not start may wait for one that does.
	Mode job.Mode `json:"mode,omitempty"`
	// Before is how many due jobs come before it in its queue; from 10,000 on it may be more.
	Before int `json:"before"`
	// Runs is who runs it; nil: nobody.
	Runs *Holder `json:"runs,omitempty"`
}

// LockState is a lock of a job.
type LockState struct {
	KeyDetail
	// Blocks says that the job waits for this lock. Of several it stands in all lines, and is looked at again when one comes free.
	Blocks bool `json:"blocks,omitempty"`
	// Held says that the job has the lock.
	Held bool `json:"held,omitempty"`
	// Place is the job's place in the line, from 1; zero: it is in none.
	Place int `json:"place,omitempty"`
	// Wait is how long until it may have the lock: Place · Took / Limit, if the last holders say what is to come. Zero: not known.
	Wait time.Duration `json:"wait_ns,omitempty"`
}

// QueueState is a queue as it bears on its jobs.
type QueueState struct {
	Name      string        `json:"queue"`
	Paused    bool          `json:"paused,omitempty"`
	PausedFor time.Duration `json:"paused_ns,omitempty"`
	// Limit is what all workers together may do with it; nil: there is none.
	Limit *QueueLimit `json:"limit,omitempty"`
}

// Explain returns why a job does not run, or how it does. The error is ErrNotFound if there is no such job.
func (c *Client) Explain(ctx context.Context, id job.ID) (Explanation, error) {
	if err := c.enter(); err != nil {
		return Explanation{}, err
	}
	defer c.leave()
	row, err := c.store.Job(ctx, id)
	if err != nil {
		return Explanation{}, fmt.Errorf("explain job %s: %w", id, err)
	}
	row.Payload, row.Result = nil, nil
	x := Explanation{Job: row, Queue: QueueState{Name: row.Queue}}
	facts, ok, err := c.store.Facts(ctx, id)
	if err != nil {
		return x, err
	}
	if !ok {
		x.Now, err = c.store.Now(ctx)
		x.Why = []Reason{WhyEnded}
		return x, err
	}
	x.take(facts)
	if err := c.explainQueue(ctx, &x.Queue, row.Queue); err != nil {
		return x, err
	}
	for _, k := range row.Keys {
		if err := c.explainKey(ctx, &x, k, facts); err != nil {
			return x, err
		}
	}
	if x.Runs != nil {
		if p, ok, err := c.Progress(ctx, id); err == nil && ok {
			x.Runs.Progress = &p
		}
	}
	x.Why = x.reasons(facts)
	return x, nil
}

// take copies what the facts say.
func (x *Explanation) take(f pgstore.Facts) {
	x.Now = f.Now
	if f.State != job.LiveRunning {
		if wait := f.Now.Sub(x.Job.ReadyAt); wait < 0 {
			x.DueIn = -wait
		} else {
			x.Waits = wait
		}
	}
	x.Queue.Paused, x.Queue.PausedFor = f.QueuePaused, f.QueuePausedFor
	x.KindPaused, x.KindPausedFor = f.KindPaused, f.KindPausedFor
	x.Serve, x.Know, x.Both, x.Before, x.Mode = f.Serve, f.Know, f.Both, f.Before, f.Mode
	if f.State == job.LiveRunning {
		x.Runs = &Holder{
			ID: x.Job.ID, Kind: x.Job.Kind, Queue: x.Job.Queue, Session: x.Job.Session, Host: f.Host, PID: f.PID,
			Since: f.Now.Sub(x.Job.ClaimedAt), Timeout: x.Job.Timeout, Lease: f.Lease,
		}
	}
}

func (c *Client) explainQueue(ctx context.Context, q *QueueState, name string) error {
	limits, err := c.store.QueueLimits(ctx, name)
	if err == nil && len(limits) > 0 {
		q.Limit = &limits[0]
	}
	return err
}

func (c *Client) explainKey(ctx context.Context, x *Explanation, k job.Key, f pgstore.Facts) error {
	if k.IsRate() {
		d, err := c.rate(ctx, k)
		x.Rates = append(x.Rates, d)
		return err
	}
	d, err := c.lock(ctx, k.Name(), k.N())
	if err != nil {
		return err
	}
	l := LockState{KeyDetail: d, Blocks: f.State == job.LiveBlocked && f.BlockedOn == k.Name()}
	for _, h := range d.Holders {
		l.Held = l.Held || h.ID == x.Job.ID
	}
	var before int
	if l.Waiting, before, err = c.store.KeyPlace(ctx, k.Name(), f.LineAt, x.Job.ID); err != nil {
		return err
	}
	if f.State == job.LiveBlocked {
		l.Place = before + 1
		if err := c.addTook(ctx, &l.KeyDetail, x.Job.ID); err != nil {
			return err
		}
		if l.Limit > 0 {
			l.Wait = time.Duration(l.Place) * l.Took / time.Duration(l.Limit)
		}
	}
	x.Locks = append(x.Locks, l)
	return nil
}

// The flags of a live row.
const (
	flagCancel = 4
)

// reasons finds what keeps the job, the weightiest first.
func (x *Explanation) reasons(f pgstore.Facts) (why []Reason) {
	add := func(is bool, r Reason) {
		if is {
			why = append(why, r)
		}
	}
	if f.State == job.LiveRunning {
		add(true, WhyRuns)
		add(f.Flags&flagCancel != 0, WhyCancelAsked)
		return why
	}
	add(x.Queue.Paused, WhyQueuePaused)
	add(x.KindPaused, WhyKindPaused)
	add(f.State == job.LiveBlocked, WhyBlocked)
	add(x.DueIn > 0 && x.throttled(), WhyRate)
	add(x.DueIn > 0 && !x.throttled() && x.Job.State == job.Retrying, WhyRetrying)
	add(x.DueIn > 0 && !x.throttled() && x.Job.State != job.Retrying, WhyScheduled)
	add(f.Serve == 0, WhyNoWorker)
	add(f.Serve > 0 && f.Both == 0, WhyUnknownKind)
	if q := x.Queue.Limit; q != nil {
		add(q.N > 0 && q.Running >= q.N, WhyQueueLimit)
		add(q.Rate > 0 && q.Granted >= q.Rate, WhyQueueRate)
	}
	add(f.Crashes >= 2, WhySuspect)
	if len(why) > 0 {
		return why
	}
	held := len(x.Locks) > 0
	for _, l := range x.Locks {
		held = held && l.Held
	}
	add(held, WhyNextInLine)
	add(!held && x.Before > 0, WhyTurn)
	add(!held && x.Before == 0, WhyAboutToStart)
	return why
}

// throttled reports whether it waits for a rate: it has rates, and was due before, by what its producer said. A snooze looks the
// same from outside; of one after failed attempts the wait may be the backoff.
func (x *Explanation) throttled() bool {
	for _, r := range x.Rates {
		if r.Held > 0 {
			return true
		}
	}
	first := x.Job.EnqueuedAt
	if x.Job.ScheduledAt.After(first) {
		first = x.Job.ScheduledAt
	}
	return len(x.Rates) > 0 && x.Job.Attempt == 0 && x.Job.ReadyAt.Sub(first) > time.Millisecond
}
