package main

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/job"
)

func (a *app) jobsShow() *cobra.Command {
	var payload, stack bool
	cmd := &cobra.Command{
		Use: "show ID...", Short: "show a job, its attempts and its result", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connect(cmd.Context(), func(s *session) error {
				ids, err := s.find(cmd.Context(), args)
				if err != nil {
					return err
				}
				for i, id := range ids {
					row, err := s.Job(cmd.Context(), id)
					if err != nil {
						return err
					}
					if a.json {
						if err := a.printJSON(row); err != nil {
							return err
						}
						continue
					}
					if i > 0 {
						a.print("\n")
					}
					a.showJob(&row, payload, stack)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "show the payload")
	cmd.Flags().BoolVar(&stack, "stack", false, "show the stacks of failed attempts")
	return cmd
}

// clock is how an instant is shown.
const clock = "2006-01-02 15:04:05.000"

func (a *app) showJob(r *job.Row, payload, stack bool) {
	a.print("%s  %s  %s\n", r.ID, shorten(r.Kind, 40), r.State)
	a.print("uuid      %s\n", r.ID.UUID())
	a.print("queue     %s   priority %d   attempt %d of %d\n", shorten(r.Queue, 30), r.Priority, r.Attempt, r.MaxAttempts)
	if r.Mode != job.Inline {
		a.print("mode      %s or more isolated, as its producer asked\n", r.Mode)
	}
	if r.Crashes > 0 {
		a.print("crashes   %d: processes that died while they ran it\n", r.Crashes)
	}
	for _, k := range r.Keys {
		a.field("key", k.String())
	}
	a.field("tags", strings.Join(r.Tags, ", "))
	a.field("metadata", pairs(r.Metadata))
	if !r.ParentID.IsZero() {
		a.field("parent", r.ParentID.String())
	}
	a.field("trace", r.Trace)
	a.times(r)
	for i := range r.Attempts {
		a.showAttempt(&r.Attempts[i], stack)
	}
	a.block("error", r.Error)
	a.field("result", escapeJSON(string(r.Result)))
	if payload {
		a.field("payload", escapeJSON(string(r.Payload)))
		return
	}
	a.print("payload   %d bytes  (--payload shows it)\n", len(r.Payload))
}

func (a *app) times(r *job.Row) {
	for _, t := range []struct {
		name string
		at   time.Time
	}{
		{"enqueued", r.EnqueuedAt}, {"due", r.ReadyAt}, {"claimed", r.ClaimedAt}, {"finished", r.FinishedAt}, {"expires", r.ExpiresAt},
	} {
		if !t.at.IsZero() {
			a.print("%-9s %s\n", t.name, t.at.UTC().Format(clock))
		}
	}
	if r.State == job.Running {
		a.print("runs in   session %s\n", r.Session)
	}
}

func (a *app) showAttempt(t *job.Attempt, stack bool) {
	a.print("attempt %d %s  %s after %s\n", t.Attempt, t.StartedAt.UTC().Format(clock), escape(t.Outcome), span(max(t.EndedAt.Sub(t.StartedAt), 0)))
	a.block("", t.Error)
	if stack {
		a.block("", t.Stack)
	}
}

// field prints a line unless there is nothing.
func (a *app) field(name, value string) {
	if value != "" {
		a.print("%-9s %s\n", name, escape(value))
	}
}

// block prints a text of several lines, each indented: data does not begin a line of its own.
func (a *app) block(name, text string) {
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i > 0 {
			name = ""
		}
		if line != "" || i > 0 {
			a.print("%-9s %s\n", name, escape(strings.ReplaceAll(line, "\t", "    ")))
		}
	}
}

func pairs(m map[string]string) string {
	all := make([]string, 0, len(m))
	for name, value := range m {
		all = append(all, fmt.Sprintf("%s=%s", name, value))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
