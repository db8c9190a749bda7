package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/run"
)

var (
	_ = add(configCommand)
	_ = add(versionCommand)
)

func configCommand(a *app) *cobra.Command {
	var changed bool
	cmd := &cobra.Command{
		Use: "config", Short: "show the settings in effect, and where each comes from", Args: cobra.NoArgs,
		Long: "Show the settings in effect, and where each comes from. Secrets are not shown.\nNothing is connected.",
		RunE: func(*cobra.Command, []string) error {
			l, err := a.load()
			if err != nil {
				return err
			}
			var rows [][]string
			for _, v := range l.Values() {
				switch {
				case changed && v.Source == "default":
				case a.json:
					if err := a.printJSON(v); err != nil {
						return err
					}
				default:

					rows = append(rows, []string{v.Key, dash(v.Value), sourceText(v.Source)})
				}
			}
			if a.json {
				return nil
			}
			if len(rows) == 0 {
				a.print("every setting has its default\n")
				return nil
			}
			a.table([]string{"key", "value", "from"}, rows)
			for _, w := range l.Warnings() {
				a.print("! %s\n", escape(w))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&changed, "changed", false, "only those that are not the default")
	return cmd
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(map[string]string{"version": run.Version()})
			}
			a.print("weir %s\n", run.Version())
			return nil
		},
	}
}

// sourceText shortens "default (auto: worker.grace + timing.lease)", or lines get too long.
func sourceText(source string) string {
	if auto, ok := strings.CutPrefix(source, "default (auto: "); ok {
		return strings.TrimSuffix(auto, ")")
	}
	return source
}
