package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/run"
)

// app is one call of the program: what surrounds it, and what its flags say.
type app struct {
	args, env []string
	in        io.Reader
	out, err  io.Writer

	configPath string
	json       bool
}

// commands are the command groups. Each file adds its own, so that a group is one file.
var commands []func(*app) *cobra.Command

// add is for the declaration of a command: var _ = add(jobsCommand).
func add(f func(*app) *cobra.Command) bool {
	commands = append(commands, f)
	return true
}

const about = `Weir is a background-job queue on Postgres, with Redis for speed.

  weir demo                       see it work, with nothing installed
  weir migrate up                 make or update the schema
  weir enqueue KIND '{"a": 1}'    add a job
  weir jobs list                  see what became of it

Settings come from --config FILE and from WEIR_ variables: weir config.

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused (--yes or
--override is missing), 5 Postgres cannot be reached.`

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "weir", Short: "a background-job queue on Postgres and Redis", Long: about,
		SilenceErrors: true, SilenceUsage: true, // printed by execute, in one form
		CompletionOptions: cobra.CompletionOptions{},
	}
	root.PersistentFlags().StringVar(&a.configPath, "config", "", "read this YAML `FILE`, not the one WEIR_CONFIG names")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, one object a line")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetArgs(a.args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	for _, f := range commands {
		root.AddCommand(f(a))
	}
	demand(root)
	return root
}

// demand makes a group without a command, and wrong arguments, errors of usage. cobra shows help for the one and returns
// plain errors for the other.
func demand(c *cobra.Command) {
	for _, sub := range c.Commands() {
		demand(sub)
	}
	if args := c.Args; args != nil {
		c.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	if c.HasSubCommands() && c.Run == nil && c.RunE == nil && c.HasParent() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return cmd.Help()
			}
			return usageError{fmt.Errorf("unknown command %q for %q%s", given[0], cmd.CommandPath(), suggest(cmd, given[0]))}
		}
	}
}

func suggest(cmd *cobra.Command, given string) string {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	if near := config.Nearest(given, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// execute runs one command and returns the exit code.
func execute(ctx context.Context, a *app) int {
	root := a.root()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	return a.report(cmd, err)
}

// load reads the configuration.
func (a *app) load() (*config.Loaded, error) {
	l, err := config.Read(config.Sources{Path: a.configPath, Environ: a.env})
	if err != nil {
		return nil, configError{err}
	}
	return l, nil
}

// session is a connection that a command works on.
type session struct {
	*client.Client
	loaded *config.Loaded
}

// connect calls f with a client on a database that answers and whose schema fits.
func (a *app) connect(ctx context.Context, f func(*session) error) error {
	return a.reach(ctx, func(s *session) error {
		if err := run.CheckSchema(ctx, s.Pool(), s.loaded.Config); err != nil {
			return explained{err, s.loaded}
		}
		return f(s)
	})
}

// reach calls f with a client on a database that answers, whatever its schema.
func (a *app) reach(ctx context.Context, f func(*session) error) error {
	l, err := a.load()
	if err != nil {
		return err
	}
	if err := l.Require("postgres.url"); err != nil {
		return configError{err}
	}
	c, closeAll, err := run.Open(l.Config, run.Options{Name: "weir"})
	if err != nil {
		return explained{err, l}
	}
	defer closeAll()
	// At once and by itself: what comes later tries on for postgres.statement_timeout.
	limit, cancel := context.WithTimeout(ctx, l.Config.Postgres.ConnectTimeout)
	err = c.Pool().Ping(limit)
	cancel()
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return unreachable{explained{err, l}}
	}
	if err = f(&session{c, l}); err != nil && run.IsUnreachable(err) {
		return unreachable{explained{err, l}}
	}
	return err
}

// isTerminal reports whether somebody is there to be asked.
func (a *app) isTerminal() bool {
	f, ok := a.in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
