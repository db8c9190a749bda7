package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// jobsChange is the command that says anew when waiting jobs start.
func (a *app) jobsChange() *cobra.Command {
	var (
		ch client.Change
		at string
	)
	cmd := a.actCommand(act{
		verb: "change", past: "changed", short: "give waiting jobs another time or priority",
		one: func(s *session, ctx context.Context, id job.ID) error { return s.Change(ctx, ch, id) },
		many: func(s *session, ctx context.Context, f client.Filter) (int, error) {
			return s.ChangeMany(ctx, f, ch)
		},
	})
	cmd.Example = "  weir jobs change 01JDX2ZZ4M --in 10m\n  weir jobs change --queue mail --kind digest --priority 9 --yes"
	cmd.Flags().DurationVar(&ch.In, "in", 0, "due so long from now")
	cmd.Flags().StringVar(&at, "at", "", "due then, as 2026-01-31T18:00:00Z")
	cmd.Flags().BoolVar(&ch.Now, "now", false, "due now")
	cmd.Flags().IntVar(&ch.Priority, "priority", 0, "1 (first) to 9")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if at != "" {
			var err error
			if ch.At, err = time.Parse(time.RFC3339, at); err != nil {
				return usageError{errors.New("--at: want an instant such as 2026-01-31T18:00:00Z")}
			}
		}
		if ch == (client.Change{}) {
			return usageError{errors.New("say what to change: --in, --at, --now or --priority")}
		}
		return run(cmd, args)
	}
	return cmd
}
