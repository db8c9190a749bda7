package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

var _ = add(explainCommand)

func explainCommand(a *app) *cobra.Command {
	var queue, key string
	cmd := &cobra.Command{
		Use: "explain [JOB | --queue QUEUE | --key KEY]", Short: "why a job, a queue's jobs or those of a key do not run",
		Long:    "Say why a job does not run: what it waits for, who has that and for how long,\nand what can be done. With --queue or --key about all that wait there.",
		Example: "  weir explain 01JDX3\n  weir explain --queue mail\n  weir explain --key account:42",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := len(args)
			for _, name := range []string{"queue", "key"} {
				if cmd.Flags().Changed(name) {
					given++
				}
			}
			if given != 1 {
				return usageError{errors.New("give one of: a job's id, --queue, --key")}
			}
			return a.connect(cmd.Context(), func(s *session) error {
				switch {
				case len(args) == 1:
					return a.explainJob(cmd.Context(), s, args[0])
				case cmd.Flags().Changed("queue"):
					return a.explainQueue(cmd.Context(), s, queue)
				}
				return a.showKey(cmd.Context(), s, key)
			})
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "explain this queue")
	cmd.Flags().StringVar(&key, "key", "", "explain this key")
	return cmd
}

func (a *app) explainJob(ctx context.Context, s *session, word string) error {
	id, err := s.findOne(ctx, word)
	if err != nil {
		return err
	}
	x, err := s.Explain(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(x)
	}
	r := &x.Job
	a.print("%s  %s  %s\n", r.ID, shorten(r.Kind, 36), r.State)
	a.print("queue %s  priority %d  attempt %d of %d\n", shorten(r.Queue, 36), r.Priority, r.Attempt, r.MaxAttempts)
	if slices.Contains(x.Why, client.WhyEnded) {
		if !r.FinishedAt.IsZero() {
			a.print("%s %s ago: nothing is to come\n", r.State, span(x.Now.Sub(r.FinishedAt)))
		}
		return nil
	}
	var can []string
	for _, why := range x.Why {
		can = append(can, a.explainReason(&x, why)...)
	}
	a.explainRest(&x)
	a.advise(can)
	return nil
}

// explainReason prints what one reason is about and returns what can be done.
func (a *app) explainReason(x *client.Explanation, why client.Reason) []string {
	queue, kind := shorten(x.Job.Queue, 30), shorten(x.Job.Kind, 30)
	switch why {
	case client.WhyRuns:
		a.print("running for %s on %s\n", span(x.Runs.Since), processName(x.Runs))
		a.holderDetails("  ", x.Runs)
		return []string{"weir jobs cancel " + x.Job.ID.String()}
	case client.WhyCancelAsked:
		a.print("somebody has cancelled it: its handler was told and has not returned\n")
	case client.WhyBlocked:
		return a.explainBlocked(x)
	case client.WhyRate:
		a.print("waits for a rate: may start in %s\n", span(x.DueIn))
	case client.WhyScheduled, client.WhyRetrying:
		what := map[client.Reason]string{client.WhyScheduled: "scheduled", client.WhyRetrying: "waits after a failed attempt"}[why]
		a.print("%s: due in %s, at %s UTC\n", what, span(x.DueIn), x.Job.ReadyAt.UTC().Format(clock))
		return []string{"weir jobs retry " + x.Job.ID.String() + "  (makes it due now)"}
	case client.WhyQueuePaused:
		a.print("queue %s is paused since %s\n", queue, span(x.Queue.PausedFor))
		return commandOn("weir queues resume", x.Job.Queue)
	case client.WhyKindPaused:
		a.print("kind %s is paused since %s\n", kind, span(x.KindPausedFor))
		return commandOn("weir kinds resume", x.Job.Kind)
	case client.WhyNoWorker:
		a.print("no worker serves queue %s\n", queue)
		return []string{"weir workers list"}
	case client.WhyUnknownKind:
		a.fit(fmt.Sprintf("%s queue %s,", serves(x.Serve), queue), "none of them knows kind "+kind)
		return []string{"weir kinds list"}
	case client.WhyQueueLimit, client.WhyQueueRate:
		a.fit(fmt.Sprintf("queue %s is at its limit:", queue), limitOfQueue(x.Queue.Limit))
		return commandOn("weir queues limit", x.Job.Queue)
	case client.WhySuspect:
		a.print("%d processes have died while they ran it: it waits longer, and a worker\ntakes one such job at a time\n", x.Job.Crashes)
	case client.WhyTurn:
		a.print("due for %s: %s before it in queue %s\n", span(x.Waits), plural(x.Before, "job"), queue)
		return []string{"weir queues list"}
	case client.WhyNextInLine:
		a.print("has its locks, and waits for a worker\n")
	case client.WhyAboutToStart:
		a.print("due for %s: nothing is in its way\n", span(x.Waits))
	}
	return nil
}

// explainBlocked prints the locks that the job waits for.
func (a *app) explainBlocked(x *client.Explanation) (can []string) {
	for i := range x.Locks {
		l := &x.Locks[i]
		if !l.Blocks {
			continue
		}
		a.print("blocked for %s on  %s  (%s)\n", span(x.Waits), shorten(l.Name, 26), limitOfKey(&l.KeyDetail))
		for j := range l.Holders {
			if j == 3 {
				a.print("           and %d more\n", len(l.Holders)-j)
				break
			}
			h := &l.Holders[j]
			a.print("  held by  %s\n", holderLine(h))
			a.holderDetails("           ", h)
		}
		if len(l.Holders) == 0 {
			a.print("  held by nobody: it is looked at within seconds\n")
		} else if !l.Holders[0].Kept {
			can = append(can, "weir jobs cancel "+l.Holders[0].ID.String())
		}
		a.print("  line     %s of %d%s\n", ordinal(l.Place), l.Waiting, expected(l))
		can = append(can, commandOn("weir keys show", l.Name)...)
	}
	return can
}

// expected says when it is the job's turn, as far as the last holders tell.
func expected(l *client.LockState) string {
	if l.Of == 0 || l.Wait == 0 {
		return ""
	}
	return fmt.Sprintf("; the last %s took %s each: about %s to go", plural(l.Of, "holder"), span(l.Took), span(l.Wait))
}

// explainRest prints what else the job depends on.
func (a *app) explainRest(x *client.Explanation) {
	for i := range x.Locks {
		if l := &x.Locks[i]; !l.Blocks {
			state := plural(len(l.Holders), "holder")
			if l.Held {
				state = "it has it"
			} else if l.Place > 0 {
				state += fmt.Sprintf(", %s of %d in line", ordinal(l.Place), l.Waiting)
			}
			a.fit(fmt.Sprintf("lock  %s (%s):", shorten(l.Name, 26), limitOfKey(&l.KeyDetail)), state)
		}
	}
	for _, r := range x.Rates {
		state := "open"
		if r.Held > 0 {
			state = "closed for " + span(r.Held) + ": a handler was told to wait"
		}
		a.fit(fmt.Sprintf("rate  %s (%s):", shorten(r.Name, 20), limitOfRate(&r)), state)
	}
	if q := x.Queue.Limit; q != nil && !slices.Contains(x.Why, client.WhyQueueLimit) && !slices.Contains(x.Why, client.WhyQueueRate) {
		a.fit(fmt.Sprintf("queue %s:", shorten(q.Name, 30)), limitOfQueue(q))
	}
	if x.Mode != job.Inline && x.Runs == nil {
		a.print("asks for mode %s: it waits for a worker that accepts that\n", x.Mode)
	}
	if x.Runs == nil {
		a.print("%s its queue, %d of them know its kind\n", serves(x.Serve), x.Both)
	}
	if !x.Job.ExpiresAt.IsZero() && x.Runs == nil {
		a.print("expires in %s if it has not started\n", span(x.Job.ExpiresAt.Sub(x.Now)))
	}
}

// advise prints what can be done, each once.
func (a *app) advise(can []string) {
	lead := "what you can do:"
	for i, c := range can {
		if slices.Contains(can[:i], c) {
			continue
		}
		a.print("%-16s  %s\n", lead, c)
		lead = ""
	}
}
