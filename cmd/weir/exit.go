package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/run"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitUnreachable = 5
)

// usageError is a fault of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// configError is a fault of the settings.
type configError struct{ error }

func (e configError) Unwrap() error { return e.error }

// refusedError is a command that was not confirmed: nothing was done.
type refusedError struct {
	what  string
	asked bool // and somebody said no
}

func (e refusedError) Error() string {
	if e.asked {
		return e.what + ": nothing was done"
	}
	return e.what + ": refused, since nobody is there to be asked\n-> add --yes"
}

// explained is an error that the settings led to.
type explained struct {
	error
	loaded *config.Loaded
}

func (e explained) Error() string { return run.Explain(e.error, e.loaded) }
func (e explained) Unwrap() error { return e.error }

// unreachable is Postgres that does not answer.
type unreachable struct{ error }

func (e unreachable) Unwrap() error { return e.error }

// codeOf returns the exit code for err.
func codeOf(err error) int {
	var (
		usage  usageError
		conf   configError
		field  *job.FieldError
		refuse refusedError
		away   unreachable
		file   ownedByFile
	)
	switch {
	case errors.As(err, &usage), errors.As(err, &conf), errors.As(err, &field):
		return exitUsage
	case errors.As(err, &refuse), errors.As(err, &file):
		return exitRefused
	case errors.As(err, &away):
		return exitUnreachable
	case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrNoLimit):
		return exitNotFound
	case strings.HasPrefix(err.Error(), "unknown command "): // cobra's own, for the root
		return exitUsage
	}
	return exitFailed
}

// report prints why a command failed, and what to do, and returns the exit code.
func (a *app) report(cmd *cobra.Command, err error) int {
	code := codeOf(err)
	out := clean(a.err)
	var (
		conf   configError
		failed *job.FailedError
	)
	switch {
	case errors.As(err, &failed):
		_, _ = fmt.Fprintf(out, "weir: %s\n", escape(err.Error())) // a handler's words: they begin no line
	case errors.As(err, &conf):
		_, _ = fmt.Fprintf(out, "weir: configuration:\n  %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(out, "weir: interrupted")
	default:
		_, _ = fmt.Fprintf(out, "weir: %s\n", err)
	}
	var usage usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command ") {
		_, _ = fmt.Fprintf(out, "-> %s --help\n", cmd.CommandPath())
	}
	return code
}
