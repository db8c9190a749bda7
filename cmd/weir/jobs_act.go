package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// act is something done to jobs by hand, to those that are named or to all that a filter selects.
type act struct {
	verb, past string
	short      string
	one        func(s *session, ctx context.Context, id job.ID) error
	many       func(s *session, ctx context.Context, f client.Filter) (int, error)
}

func (a *app) jobsCancel() *cobra.Command {
	return a.actCommand(act{
		verb: "cancel", past: "cancelled", short: "cancel jobs; those that run are asked to stop",
		one:  func(s *session, ctx context.Context, id job.ID) error { return s.Cancel(ctx, id) },
		many: func(s *session, ctx context.Context, f client.Filter) (int, error) { return s.CancelMany(ctx, f) },
	})
}

func (a *app) jobsRetry() *cobra.Command {
	return a.actCommand(act{
		verb: "retry", past: "due now", short: "make jobs due now that failed for good, or that wait",
		one:  func(s *session, ctx context.Context, id job.ID) error { return s.Retry(ctx, id) },
		many: func(s *session, ctx context.Context, f client.Filter) (int, error) { return s.RetryMany(ctx, f) },
	})
}

func (a *app) jobsDelete() *cobra.Command {
	return a.actCommand(act{
		verb: "delete", past: "deleted", short: "forget jobs that do not run, with payload and result",
		one:  func(s *session, ctx context.Context, id job.ID) error { return s.Delete(ctx, id) },
		many: func(s *session, ctx context.Context, f client.Filter) (int, error) { return s.DeleteMany(ctx, f) },
	})
}

func (a *app) actCommand(t act) *cobra.Command {
	var (
		f   filterFlags
		yes bool
	)
	cmd := &cobra.Command{
		Use: t.verb + " [ID...]", Short: t.short,
		Long:    strings.ToUpper(t.verb[:1]) + t.verb[1:] + " the jobs named, or those that --queue, --kind, --state, --tag, --key and\n--since select together. The latter asks first, unless --yes is given.",
		Example: fmt.Sprintf("  weir jobs %s 01JDX2ZZ4M\n  weir jobs %s --queue mail --since 1h --yes", t.verb, t.verb),
		RunE: func(cmd *cobra.Command, args []string) error {
			filtered := !f.filter().IsZero()
			switch {
			case len(args) > 0 && filtered:
				return usageError{errors.New("give ids or a filter, not both")}
			case len(args) == 0 && !filtered:
				return usageError{errors.New("give ids, or a filter: --queue, --kind, --state, --tag, --key or --since")}
			}
			return a.connect(cmd.Context(), func(s *session) error {
				if filtered {
					return a.actMany(cmd.Context(), s, t, f, yes)
				}
				return a.actOn(cmd.Context(), s, t, args)
			})
		},
	}
	f.on(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// actOn does t to the jobs named. One that cannot be does not stop the others.
func (a *app) actOn(ctx context.Context, s *session, t act, words []string) error {
	ids, err := s.find(ctx, words)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		if err := t.one(s, ctx, id); err != nil {
			errs = append(errs, err)
			continue
		}
		if a.json {
			errs = append(errs, a.printJSON(map[string]any{"id": id, "done": t.verb}))
			continue
		}
		a.print("%s  %s\n", id, t.past)
	}
	return errors.Join(errs...)
}

func (a *app) actMany(ctx context.Context, s *session, t act, f filterFlags, yes bool) error {
	if !yes {
		if err := a.ask(ctx, s, t.verb, f); err != nil {
			return err
		}
	}
	var stopped *client.BatchError
	n, err := t.many(s, ctx, f.filter())
	switch {
	case errors.As(err, &stopped) && !stopped.Before.IsZero():
		return fmt.Errorf("%s %s, then: %w\n-> the same command with --before %s goes on", plural(n, "job"), t.past, stopped.Err, stopped.Before)
	case err != nil && n > 0:
		return fmt.Errorf("%s %s, then: %w", plural(n, "job"), t.past, err)
	case err != nil:
		return err
	case a.json:
		return a.printJSON(map[string]any{"done": t.verb, "jobs": n})
	}
	a.print("%s %s\n", plural(n, "job"), t.past)
	return nil
}

// counted is how far jobs are counted before somebody is asked about them.
const counted = 10_000

// ask asks whether to go on. Where nobody can answer it refuses.
func (a *app) ask(ctx context.Context, s *session, verb string, f filterFlags) error {
	what := fmt.Sprintf("%s jobs of %s", verb, f.text())
	if !a.isTerminal() {
		return refusedError{what, false}
	}
	n, more := 0, ""
	for _, err := range s.Jobs(ctx, f.filter()) {
		if err != nil {
			return err
		}
		if n++; n == counted {
			more = " or more"
			break
		}
	}
	_, _ = fmt.Fprintf(clean(a.err), "%s: %s%s. Go on? [y/N] ", what, plural(n, "job"), more)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
		return refusedError{what, true}
	}
	return nil
}
