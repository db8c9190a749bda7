package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
)

// none takes a limit away.
const none = "none"

func (a *app) queuesLimit() *cobra.Command {
	var (
		concurrency, rate string
		override          bool
	)
	cmd := &cobra.Command{
		Use: "limit [QUEUE]", Short: "show or set what all workers together may do with a queue",
		Long:    "Limit how many jobs of a queue all workers together run at once, how many they\nstart in a window, or both; none takes a limit away, what is not named stays.\nWithout flags it shows the limits that there are.",
		Example: "  weir queues limit mail --concurrency 20 --rate 50/s\n  weir queues limit mail --rate none\n  weir queues limit",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set := concurrency != "" || rate != ""
			if set && len(args) == 0 {
				return usageError{errors.New("name the queue to limit")}
			}
			return a.connect(cmd.Context(), func(s *session) error {
				if set {
					if err := setQueueLimit(cmd.Context(), s, args[0], concurrency, rate, override); err != nil {
						return err
					}
				}
				return a.showQueueLimits(cmd.Context(), s, args)
			})
		},
	}
	cmd.Flags().StringVar(&concurrency, "concurrency", "", "so many jobs at once, or none")
	cmd.Flags().StringVar(&rate, "rate", "", "so many starts in a window, such as 50/s, or none")
	cmd.Flags().BoolVar(&override, "override", false, "even if the limits belong to a configuration file")
	return cmd
}

func setQueueLimit(ctx context.Context, s *session, queue, concurrency, rate string, override bool) error {
	all, err := s.QueueLimits(ctx)
	if err != nil {
		return err
	}
	q := client.QueueLimit{Name: queue}
	if i := slices.IndexFunc(all, func(l client.QueueLimit) bool { return l.Name == queue }); i >= 0 {
		q = all[i]
	}
	switch concurrency {
	case "":
	case none:
		q.N = 0
	default:
		if q.N, err = strconv.Atoi(concurrency); err != nil || q.N < 1 {
			return usageError{fmt.Errorf("--concurrency is %q, want a number of jobs, or none", concurrency)}
		}
	}
	switch rate {
	case "":
	case none:
		q.Rate, q.Per = 0, 0
	default:
		if q.Rate, q.Per, err = parseRate(rate); err != nil {
			return err
		}
		if q.Rate < 1 {
			return usageError{fmt.Errorf("--rate is %q, want 1 or more in a window, or none", rate)}
		}
	}
	if q.N == 0 && q.Rate == 0 {
		err = s.UnsetQueueLimit(ctx, queue, override)
		if errors.Is(err, client.ErrNoLimit) {
			return nil // there is none, as was asked for
		}
		return owned(err)
	}
	return owned(s.SetQueueLimit(ctx, q, override))
}

// showQueueLimits shows the limits of all queues, or of those named.
func (a *app) showQueueLimits(ctx context.Context, s *session, names []string) error {
	all, err := s.QueueLimits(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, q := range all {
		if len(names) > 0 && !slices.Contains(names, q.Name) {
			continue
		}
		if a.json {
			if err := a.printJSON(q); err != nil {
				return err
			}
			continue
		}
		limit, rate := "-", "-"
		if q.N > 0 {
			limit = number(int64(q.N))
		}
		if q.Rate > 0 {
			rate = fmt.Sprintf("%s per %s", number(int64(q.Rate)), perText(q.Per))
		}
		rows = append(rows, []string{shorten(q.Name, 30), limit, number(int64(q.Running)), rate, ownerText(q.Owner)})
	}
	switch {
	case a.json:
	case len(rows) > 0:
		a.table([]string{"queue", ">limit", ">run", ">rate", ""}, rows)
	case len(names) > 0:
		a.print("queue %s  no limit\n", shorten(names[0], 60))
	default:
		a.print("no queue has a limit\n")
	}
	return nil
}
