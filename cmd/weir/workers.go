package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

var _ = add(workersCommand)

func workersCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "workers", Short: "look at the processes that run jobs, and at sweepers"}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "list workers and sweepers", Args: cobra.NoArgs,
		Long: "List workers and sweepers. lease is how long a process that falls silent now\nkeeps its jobs; silent means that it is over and the sweeper gives them away.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connect(cmd.Context(), func(s *session) error { return a.listWorkers(cmd.Context(), s) })
		},
	})
	return cmd
}

type workerJSON struct {
	Session job.ID   `json:"session"`
	Role    string   `json:"role"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Version string   `json:"version"`
	State   string   `json:"state"`
	Busy    int      `json:"busy"`
	Slots   int      `json:"slots"`
	Queues  []string `json:"queues"`
	Lease   float64  `json:"lease_seconds"`
	Since   float64  `json:"up_seconds"`
}

func (a *app) listWorkers(ctx context.Context, s *session) error {
	workers, err := s.Workers(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, w := range workers {
		state := w.State
		if w.Lease < 0 {
			state = "silent"
		}
		if a.json {
			err := a.printJSON(workerJSON{
				w.ID, w.Role, w.Host, w.PID, w.Version, state, w.Busy, w.Slots, orEmpty(w.Queues), w.Lease.Seconds(), w.Since.Seconds(),
			})
			if err != nil {
				return err
			}
			continue
		}
		rows = append(rows, workerCells(w, state))
	}
	switch {
	case a.json:
	case len(rows) == 0:
		a.print("no worker and no sweeper lives\n")
	default:
		a.table([]string{"process", "version", "queues", ">busy", "state", ">lease", ">up"}, rows)
	}
	return nil
}

func workerCells(w client.WorkerInfo, state string) []string {
	busy, queues := fmt.Sprintf("%d/%d", w.Busy, w.Slots), strings.Join(w.Queues, ",")
	if w.Role == "sweeper" {
		busy, queues = "-", "(sweeper)"
	}
	return []string{
		fmt.Sprintf("%s/%d", shorten(w.Host, 14), w.PID), shorten(dash(w.Version), 12), shorten(dash(queues), 16), busy, state,
		span(w.Lease), span(w.Since),
	}
}
