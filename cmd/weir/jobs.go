package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

var _ = add(jobsCommand)

func jobsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "jobs", Short: "look at jobs, cancel, retry or delete them"}
	cmd.AddCommand(a.jobsList(), a.jobsShow(), a.jobsTail(), a.jobsCancel(), a.jobsRetry(), a.jobsChange(), a.jobsDelete())
	return cmd
}

// filterFlags select jobs.
type filterFlags struct {
	queue, kind, state, tag, key string
	since                        duration
	before                       beforeID
}

// beforeID is the id behind which a listing or an action goes on.
type beforeID struct{ job.ID }

// Set implements pflag.Value.
func (b *beforeID) Set(s string) (err error) {
	b.ID, err = job.ParseID(s)
	return err
}

// String implements pflag.Value: nothing for none.
func (b *beforeID) String() string {
	if b.IsZero() {
		return ""
	}
	return b.ID.String()
}

// Type implements pflag.Value.
func (b *beforeID) Type() string { return "ID" }

func (f *filterFlags) on(cmd *cobra.Command) {
	var states []string
	for _, s := range job.States {
		states = append(states, string(s))
	}
	cmd.Flags().StringVar(&f.queue, "queue", "", "jobs of this queue")
	cmd.Flags().StringVar(&f.kind, "kind", "", "jobs of this kind")
	cmd.Flags().StringVar(&f.state, "state", "", "jobs in this `STATE`: "+strings.Join(states[:3], ", ")+",\n"+strings.Join(states[3:7], ", ")+",\n"+strings.Join(states[7:], ", "))
	cmd.Flags().StringVar(&f.tag, "tag", "", "jobs with this tag")
	cmd.Flags().StringVar(&f.key, "key", "", "jobs with a lock or rate of this name")
	cmd.Flags().Var(&f.since, "since", "jobs enqueued at most so long ago")
	cmd.Flags().Var(&f.before, "before", "of these, those that are older than this job")
}

func (f *filterFlags) filter() client.Filter {
	return client.Filter{Queue: f.queue, Kind: f.kind, State: job.State(f.state), Tag: f.tag, Key: f.key, Since: time.Duration(f.since), Before: f.before.ID}
}

// text says in words what f selects.
func (f *filterFlags) text() string {
	var parts []string
	for _, p := range [][2]string{{"queue", f.queue}, {"kind", f.kind}, {"state", f.state}, {"tag", f.tag}, {"key", f.key}, {"enqueued since", f.since.String()}, {"older than", f.before.String()}} {
		if p[1] != "" {
			parts = append(parts, p[0]+" "+p[1])
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) jobsList() *cobra.Command {
	var (
		f     filterFlags
		limit int
	)
	cmd := &cobra.Command{
		Use: "list", Short: "list jobs, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit is %d, want 1 or more", limit)}
			}
			return a.connect(cmd.Context(), func(s *session) error { return a.listJobs(cmd.Context(), s, f.filter(), limit) })
		},
	}
	f.on(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	return cmd
}

func (a *app) listJobs(ctx context.Context, s *session, f client.Filter, limit int) error {
	var rows []job.Row
	more := false
	for row, err := range s.Jobs(ctx, f) {
		if err != nil {
			return err
		}
		if more = len(rows) == limit; more {
			break
		}
		rows = append(rows, row)
	}
	if a.json {
		for _, row := range rows {
			if err := a.printJSON(row); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		a.print("no jobs\n")
		return nil
	}
	now, err := s.Store().Now(ctx)
	if err != nil {
		return err
	}
	cells := make([][]string, 0, len(rows))
	for i := range rows {
		cells = append(cells, jobCells(&rows[i], now))
	}
	a.table([]string{"id", "kind", "queue", "state", ">tries", ">age"}, cells)
	if more {
		a.print("… and more: --limit, or --queue --kind --state --tag --key\n")
	}
	return nil
}

func jobCells(r *job.Row, now time.Time) []string {
	return []string{
		r.ID.String(), shorten(r.Kind, 16), shorten(r.Queue, 10), string(r.State),
		fmt.Sprintf("%d/%d", r.Attempt, r.MaxAttempts), span(now.Sub(enqueued(r))),
	}
}

// enqueued returns when a job was enqueued; from its id if the log row is gone.
func enqueued(r *job.Row) time.Time {
	if r.EnqueuedAt.IsZero() {
		return r.ID.Time()
	}
	return r.EnqueuedAt
}

func (a *app) jobsTail() *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use: "tail", Short: "follow jobs: a line for each change", Args: cobra.NoArgs,
		Long: "Print a line for each new job and each change of state, until Ctrl-C. It looks\nevery second at the newest 100 jobs: a state that passes in between is not seen.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connect(cmd.Context(), func(s *session) error { return a.tailJobs(cmd.Context(), s, f.filter()) })
		},
	}
	f.on(cmd)
	return cmd
}

// tailed is how many jobs tail looks at.
const tailed = 100

func (a *app) tailJobs(ctx context.Context, s *session, f client.Filter) error {
	seen := map[job.ID]job.State{}
	for first := true; ; first = false {
		err := a.tailOnce(ctx, s, f, seen, first)
		if ctx.Err() != nil {
			return nil // Ctrl-C is how it ends
		}
		if err != nil {
			return err
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

func (a *app) tailOnce(ctx context.Context, s *session, f client.Filter, seen map[job.ID]job.State, first bool) error {
	var rows []job.Row
	for row, err := range s.Jobs(ctx, f) {
		if err != nil {
			return err
		}
		if rows = append(rows, row); len(rows) == tailed {
			break
		}
	}
	for i := len(rows) - 1; i >= 0; i-- { // oldest first
		row := &rows[i]
		if old, known := seen[row.ID]; known && old == row.State {
			continue
		}
		seen[row.ID] = row.State
		if first {
			continue // what was there before is no news
		}
		if err := a.printChange(row); err != nil {
			return err
		}
	}
	forget(seen, rows)
	return nil
}

// forget drops from seen what is not among the newest any more.
func forget(seen map[job.ID]job.State, rows []job.Row) {
	if len(seen) < 2*tailed {
		return
	}
	keep := map[job.ID]bool{}
	for i := range rows {
		keep[rows[i].ID] = true
	}
	for id := range seen {
		if !keep[id] {
			delete(seen, id)
		}
	}
}

func (a *app) printChange(row *job.Row) error {
	if a.json {
		return a.printJSON(row)
	}
	a.print("%s  %-9s  %s  %s", row.ID, row.State, shorten(row.Kind, 20), shorten(row.Queue, 12))
	if row.Error != "" {
		first, _, _ := strings.Cut(row.Error, "\n")
		a.print("\n  %s", shorten(first, 76))
	}
	a.print("\n")
	return nil
}
