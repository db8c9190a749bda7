package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
)

var _ = add(queuesCommand)

func queuesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "queues", Short: "look at queues, pause, resume or limit them"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "list queues: who serves them and what waits in them", Args: cobra.NoArgs,
			Long: "List queues. slots are those of the processes that serve a queue, for all their\nqueues together; run is what runs; later is what is scheduled or waits for a\nretry; fail is what was discarded or expired. An ! marks a queue that needs a\nlook.",
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.connect(cmd.Context(), func(s *session) error { return a.listQueues(cmd.Context(), s) })
			},
		},
		a.pauseCommand("pause", "queue", "stop the starting of a queue's jobs, everywhere", client.Queue),
		a.pauseCommand("resume", "queue", "end a pause", client.Queue),
		a.queuesLimit(),
	)
	return cmd
}

// pauseCommand is pause or resume, of queues or kinds.
func (a *app) pauseCommand(verb, what, short string, target func(string) client.Target) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.connect(cmd.Context(), func(s *session) error {
				do, past := s.Pause, "paused"
				if verb == "resume" {
					do, past = s.Resume, "not paused"
				}
				for _, name := range names {
					if err := do(cmd.Context(), target(name)); err != nil {
						return err
					}
					if a.json {
						if err := a.printJSON(map[string]any{what: name, "paused": verb == "pause"}); err != nil {
							return err
						}
						continue
					}
					a.print("%s %s  %s\n", what, escape(name), past)
				}
				return nil
			})
		},
	}
}

type queueJSON struct {
	Name      string  `json:"name"`
	Workers   int     `json:"workers"`
	Slots     int     `json:"slots"`
	Ready     int64   `json:"ready"`
	Oldest    float64 `json:"oldest_seconds"`
	Running   int64   `json:"running"`
	Blocked   int64   `json:"blocked"`
	Scheduled int64   `json:"scheduled"`
	Retrying  int64   `json:"retrying"`
	Done      int64   `json:"done_last_hour"`
	Failed    int64   `json:"failed_last_hour"`
	Paused    bool    `json:"paused"`
	Counted   float64 `json:"counted_seconds_ago"`
	Estimated bool    `json:"estimated,omitempty"`
}

func (a *app) listQueues(ctx context.Context, s *session) error {
	o, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	if a.json {
		for _, q := range o.Queues {
			err := a.printJSON(queueJSON{
				q.Name, q.Workers, q.Slots, q.Ready, q.Oldest.Seconds(), q.Running, q.Blocked, q.Scheduled, q.Retrying,
				q.Done, q.Failed, q.Paused, o.Counted.Seconds(), o.Estimated,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	if len(o.Queues) == 0 {
		a.print("no queue has jobs, and no worker serves one\n")
		return nil
	}
	var rows [][]string
	var notes []string
	for _, q := range o.Queues {
		mark := ""
		if note := noteOf(q, o.Queues); note != "" {
			mark, notes = "!", append(notes, note)
		}
		rows = append(rows, queueCells(q, o.Estimated, mark))
	}
	a.table([]string{"name", ">slots", ">ready", ">oldest", ">run", ">blocked", ">later", ">done/h", ">fail/h", ""}, rows)
	for _, n := range notes {
		a.print("! %s\n", n)
	}
	if o.Counted > time.Minute {
		a.print("counted %s ago: no sweeper counts, and this role may not\n", span(o.Counted))
	}
	return nil
}

func queueCells(q client.QueueInfo, estimated bool, mark string) []string {
	ended := func(n int64) string {
		if estimated && n > 0 {
			return "~" + number(n)
		}
		return number(n)
	}
	oldest := "-"
	if q.Ready > 0 {
		oldest = span(max(q.Oldest, 0))
	}
	return []string{
		shorten(q.Name, 18), number(int64(q.Slots)), number(q.Ready), oldest, number(q.Running), number(q.Blocked),
		number(q.Scheduled + q.Retrying), ended(q.Done), ended(q.Failed), mark,
	}
}

// noteOf says what about a queue needs a look.
func noteOf(q client.QueueInfo, all []client.QueueInfo) string {
	jobs := int(q.Ready + q.Blocked + q.Scheduled + q.Retrying)
	name := shorten(q.Name, 40)
	switch {
	case q.Paused:
		return fmt.Sprintf("%s is paused since %s -> weir queues resume %s", name, span(q.PausedFor), name)
	case q.Workers > 0 || jobs == 0:
		return ""
	}
	note := fmt.Sprintf("%s has %s and no worker serves it", name, plural(jobs, "job"))
	var served []string
	for _, other := range all {
		if other.Workers > 0 {
			served = append(served, other.Name)
		}
	}
	if near := config.Nearest(q.Name, served); near != "" && !strings.EqualFold(near, q.Name) {
		note += fmt.Sprintf(" -> a typo of %q?", near)
	}
	return note
}
