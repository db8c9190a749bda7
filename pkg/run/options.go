package run

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/weirq/weir/config"
)

// process is one run of a main: what its flags and settings say, and where it writes.
type process struct {
	name   string // "weir-worker", "weir-child" or "weir-sweeper"
	loaded *config.Loaded
	log    *slog.Logger
	env    []string
	stderr io.Writer
}

const usage = `usage: %s [--config FILE] [--check-config] [--version]

  --config FILE    YAML configuration (default: the file that WEIR_CONFIG names)
  --check-config   read the configuration, say what is wrong with it, and exit
  --version        print the version and exit

Every setting is also a variable: timing.lease is WEIR_TIMING_LEASE.
`

// begin reads flags and configuration. When done is true the process ends with code.
func begin(name string, args, env []string, stdout, stderr io.Writer) (p *process, code int, done bool) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "", "")
	check := flags.Bool("check-config", false, "")
	version := flags.Bool("version", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = fmt.Fprintf(stdout, usage, name)
		return nil, exitDone, true
	case err != nil:
		return nil, complain(stderr, name, err), true
	case flags.NArg() > 0:
		return nil, complain(stderr, name, fmt.Errorf("unexpected argument %.64q", flags.Arg(0))), true
	case *version:
		_, _ = fmt.Fprintln(stdout, name, Version())
		return nil, exitDone, true
	}
	loaded, err := config.Read(config.Sources{Path: *path, Environ: env})
	if err == nil {
		err = loaded.Require("postgres.url")
	}
	if err != nil {
		tell(stderr, "configuration:\n  "+strings.ReplaceAll(err.Error(), "\n", "\n  "))
		return nil, exitUsage, true
	}
	if *check {
		_, _ = fmt.Fprintln(stdout, "configuration is good"+from(loaded.Path()))
		for _, w := range loaded.Warnings() {
			_, _ = fmt.Fprintln(stdout, "warning:", w)
		}
		return nil, exitDone, true
	}
	log := NewLogger(stderr, loaded.Config.Log)
	if name != childName { // they were said by the worker
		for _, w := range loaded.Warnings() {
			log.Warn(w)
		}
	}
	return &process{name: name, loaded: loaded, log: log, env: env, stderr: stderr}, 0, false
}

func complain(stderr io.Writer, name string, err error) int {
	tell(stderr, err.Error())
	_, _ = fmt.Fprintf(stderr, usage, name)
	return exitUsage
}

// tell prints an error that ends the process, in the form that all of Weir's programs use.
func tell(stderr io.Writer, text string) {
	_, _ = fmt.Fprintln(stderr, "weir: "+text)
}

func from(path string) string {
	if path == "" {
		return ""
	}
	return ": " + path
}

// fail tells what ended the process.
func (p *process) fail(err error) int {
	tell(p.stderr, Explain(err, p.loaded))
	return exitFailed
}
