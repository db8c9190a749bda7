package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
)

var _ = add(kindsCommand)

func kindsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "kinds", Short: "look at kinds of jobs, pause or resume them"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "list", Short: "list the kinds that a worker knows or that are paused", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.connect(cmd.Context(), func(s *session) error { return a.listKinds(cmd.Context(), s) })
			},
		},
		a.pauseCommand("pause", "kind", "stop the starting of a kind's jobs, everywhere", client.Kind),
		a.pauseCommand("resume", "kind", "end a pause", client.Kind),
	)
	return cmd
}

type kindJSON struct {
	Name    string `json:"name"`
	Workers int    `json:"workers"`
	Paused  bool   `json:"paused"`
}

func (a *app) listKinds(ctx context.Context, s *session) error {
	kinds, err := s.Kinds(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, k := range kinds {
		if a.json {
			if err := a.printJSON(kindJSON{k.Name, k.Workers, k.Paused}); err != nil {
				return err
			}
			continue
		}
		state := "-"
		if k.Paused {
			state = "paused " + span(k.PausedFor)
		}
		rows = append(rows, []string{shorten(k.Name, 50), number(int64(k.Workers)), state})
	}
	switch {
	case a.json:
	case len(rows) == 0:
		a.print("no worker lives, and no kind is paused\n")
	default:
		a.table([]string{"kind", ">workers", "state"}, rows)
	}
	return nil
}
