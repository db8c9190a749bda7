package client

import (
	"context"
	"slices"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// KindDue is a kind of which jobs of a queue are due.
type KindDue = pgstore.KindInQueue

// QueueExplanation is why the due jobs of a queue do not run, or how they do.
type QueueExplanation struct {
	// Why are the reasons, the one that counts first.
	Why   []Reason   `json:"why"`
	Queue QueueState `json:"queue"`
	// Depth is the queue at a glance, as Queues has it.
	Depth QueueInfo `json:"depth"`
	// Workers are the living workers that serve it.
	Workers []WorkerInfo `json:"workers"`
	// Kinds are those of its due jobs; 1,000 jobs of each priority are looked at.
	Kinds []KindDue `json:"kinds"`
}

// ExplainQueue returns why the due jobs of a queue do not run, or how they do. A queue without jobs and workers is no error.
func (c *Client) ExplainQueue(ctx context.Context, queue string) (x QueueExplanation, err error) {
	if err := job.ValidateQueue(queue); err != nil {
		return x, err
	}
	x = QueueExplanation{Queue: QueueState{Name: queue}, Depth: QueueInfo{Name: queue}, Workers: []WorkerInfo{}}
	o, err := c.Queues(ctx)
	if err != nil {
		return x, err
	}
	if i := slices.IndexFunc(o.Queues, func(q QueueInfo) bool { return q.Name == queue }); i >= 0 {
		x.Depth = o.Queues[i]
	}
	x.Queue.Paused, x.Queue.PausedFor = x.Depth.Paused, x.Depth.PausedFor
	if err := c.enter(); err != nil {
		return x, err
	}
	defer c.leave()
	if err := c.explainQueue(ctx, &x.Queue, queue); err != nil {
		return x, err
	}
	all, err := c.store.Workers(ctx)
	if err != nil {
		return x, err
	}
	for _, w := range all {
		if w.Role == "worker" && w.Lease > 0 && slices.Contains(w.Queues, queue) {
			x.Workers = append(x.Workers, w)
		}
	}
	if x.Kinds, err = c.store.KindsDue(ctx, queue); err != nil {
		return x, err
	}
	x.Why = x.reasons()
	return x, nil
}

func (x *QueueExplanation) reasons() (why []Reason) {
	add := func(is bool, r Reason) {
		if is {
			why = append(why, r)
		}
	}
	known, paused, free := false, true, false
	for _, k := range x.Kinds {
		known, paused = known || k.Workers > 0, paused && k.Paused
	}
	for _, w := range x.Workers {
		free = free || w.Busy < w.Slots
	}
	due := len(x.Kinds) > 0
	add(x.Queue.Paused, WhyQueuePaused)
	add(len(x.Workers) == 0, WhyNoWorker)
	add(due && paused, WhyKindPaused)
	add(due && len(x.Workers) > 0 && !known, WhyUnknownKind)
	if q := x.Queue.Limit; q != nil {
		add(q.N > 0 && q.Running >= q.N, WhyQueueLimit)
		add(q.Rate > 0 && q.Granted >= q.Rate, WhyQueueRate)
	}
	add(x.Depth.Blocked > 0, WhyBlocked)
	add(!due, WhyNoJobs)
	if len(why) == 0 {
		add(free, WhyFlows)
		add(!free, WhyTurn)
	}
	return why
}
