package main

import (
	"context"

	"github.com/weirq/weir/pkg/client"
)

func (a *app) explainQueue(ctx context.Context, s *session, queue string) error {
	x, err := s.ExplainQueue(ctx, queue)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(x)
	}
	d := &x.Depth
	a.print("queue %s\n", shorten(queue, 60))
	a.print("%s ready, %s running, %s blocked, %s scheduled, %s retrying\n", number(d.Ready), number(d.Running), number(d.Blocked),
		number(d.Scheduled), number(d.Retrying))
	var can []string
	for _, why := range x.Why {
		switch why {
		case client.WhyQueuePaused:
			a.print("it is paused since %s\n", span(x.Queue.PausedFor))
			can = append(can, commandOn("weir queues resume", queue)...)
		case client.WhyNoWorker:
			a.print("no worker serves it\n")
			can = append(can, "weir workers list")
		case client.WhyKindPaused:
			a.print("the kinds of its due jobs are paused\n")
		case client.WhyUnknownKind:
			a.print("no worker that serves it knows the kinds of its due jobs\n")
		case client.WhyQueueLimit, client.WhyQueueRate:
			a.fit("it is at its limit:", limitOfQueue(x.Queue.Limit))
		case client.WhyBlocked:
			a.print("%s for keys that others have\n", map[bool]string{true: "1 job waits", false: number(d.Blocked) + " jobs wait"}[d.Blocked == 1])
			can = append(can, "weir keys list")
		case client.WhyNoJobs:
			a.print("no job is due\n")
		case client.WhyTurn:
			a.print("all slots of its workers are busy\n")
		case client.WhyFlows:
			a.print("nothing is in the way: its jobs are started\n")
		}
	}
	for _, k := range x.Kinds {
		state := plural(k.Workers, "worker")
		if k.Paused {
			state += ", paused since " + span(k.PausedFor)
			can = append(can, commandOn("weir kinds resume", k.Kind)...)
		}
		a.print("kind %s: %s due, known by %s\n", shorten(k.Kind, 36), number(int64(k.Due)), state)
	}
	for _, w := range x.Workers {
		a.print("worker %s/%d: %d of %d slots busy, %s\n", shorten(w.Host, 30), w.PID, w.Busy, w.Slots, w.State)
	}
	a.advise(can)
	return nil
}
