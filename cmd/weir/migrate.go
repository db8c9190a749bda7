package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/pgstore/migrate"
	"github.com/weirq/weir/pkg/run"
)

var _ = add(migrateCommand)

func migrateCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "make, update or print the schema"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "up", Short: "apply what is pending", Args: cobra.NoArgs,
			Long: "Apply what is pending, one transaction a version. Any number of processes may\ndo so at once. Workers of the release before go on meanwhile.",
			RunE: a.migrateUp,
		},
		&cobra.Command{Use: "status", Short: "show where the schema stands", Args: cobra.NoArgs, RunE: a.migrateStatus},
		a.migrateSQL(),
	)
	return cmd
}

func (a *app) migrateUp(cmd *cobra.Command, _ []string) error {
	return a.reach(cmd.Context(), func(s *session) error {
		applied, err := run.Migrate(cmd.Context(), s.loaded.Config)
		if err != nil {
			return explained{err, s.loaded}
		}
		name := s.loaded.Config.Namespace
		if a.json {
			return a.printJSON(map[string]any{"schema": name, "applied": orEmpty(applied), "version": migrate.Latest})
		}
		for _, v := range applied {
			a.print("schema %s: version %d applied\n", name, v)
		}
		if len(applied) == 0 {
			a.print("schema %s: nothing to do, it has version %d\n", name, migrate.Latest)
		}
		return nil
	})
}

// orEmpty makes a list of nothing [] instead of null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *app) migrateStatus(cmd *cobra.Command, _ []string) error {
	return a.reach(cmd.Context(), func(s *session) error {
		cfg, err := run.SchemaConfig(s.loaded.Config)
		if err != nil {
			return err
		}
		st, err := migrate.Status(cmd.Context(), s.Pool(), cfg)
		if err != nil {
			return explained{err, s.loaded}
		}
		if a.json {
			return a.printJSON(statusJSON{
				cfg.Schema, st.Current, st.Latest, migrate.Oldest, migrate.Newest, orEmpty(st.Pending), st.Environment,
			})
		}
		a.print("schema       %s\n", cfg.Schema)
		a.print("version      %d of %d  (this program works with %d to %d)\n", st.Current, st.Latest, migrate.Oldest, migrate.Newest)
		a.print("environment  %s\n", dash(st.Environment))
		for _, v := range st.Applied {
			a.print("applied      %d  at %s\n", v.Version, v.At.Format(time.DateTime))
		}
		for _, v := range st.Pending {
			a.print("pending      %d  -> weir migrate up\n", v)
		}
		return nil
	})
}

type statusJSON struct {
	Schema      string  `json:"schema"`
	Version     int64   `json:"version"`
	Latest      int64   `json:"latest"`
	Oldest      int64   `json:"oldest_usable"`
	Newest      int64   `json:"newest_usable"`
	Pending     []int64 `json:"pending"`
	Environment string  `json:"environment,omitempty"`
}

func (a *app) migrateSQL() *cobra.Command {
	var from int64
	cmd := &cobra.Command{
		Use: "sql", Short: "print the schema as SQL, for a tool of your own", Args: cobra.NoArgs,
		Long: "Print the versions after --from as a script that any tool can run in one\ntransaction. It needs no database. On a schema at another version the script\nchanges nothing and ends with an error.",
		RunE: func(*cobra.Command, []string) error {
			l, err := a.load()
			if err != nil {
				return err
			}
			cfg, err := run.SchemaConfig(l.Config)
			if err != nil {
				return err
			}
			if from < 0 || from >= migrate.Latest {
				return usageError{fmt.Errorf("--from is %d, want 0 to %d", from, migrate.Latest-1)}
			}
			if !a.json {
				return migrate.SQL(a.out, from, cfg)
			}
			var script strings.Builder
			if err := migrate.SQL(&script, from, cfg); err != nil {
				return err
			}
			return a.printJSON(map[string]any{"schema": cfg.Schema, "from": from, "version": migrate.Latest, "sql": script.String()})
		},
	}
	cmd.Flags().Int64Var(&from, "from", 0, "the version that the schema has, 0 for none")
	return cmd
}
