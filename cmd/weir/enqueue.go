package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

var _ = add(enqueueCommand)

type enqueueFlags struct {
	queue, id, at, backoff    string
	priority, maxAttempts     int
	delay, expiresIn, timeout duration
	wait                      wait
	noTimeout                 bool
	tags, meta                []string
	keys, limits, rates       []string
	unique                    uniqueFlags
	onDiscard, mode           string
}

// wait is how long --wait waits; zero: not at all. It looks like a flag without a value, and may have one.
type wait struct{ duration }

// forEver is --wait without a limit.
const forEver = duration(100 * 365 * 24 * time.Hour)

// Set implements pflag.Value.
func (w *wait) Set(s string) error {
	if s == "true" {
		w.duration = forEver
		return nil
	}
	return w.duration.Set(s)
}

// Type implements pflag.Value.
func (w *wait) Type() string { return "bool" }

func enqueueCommand(a *app) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use: "enqueue KIND [JSON|@file|-]", Short: "add a job",
		Long: "Add a job. Its payload is JSON given here, read from a file (@file) or from\nstdin (-); without one it is {}. Prints the job's id, with --wait its result.",
		Example: `  weir enqueue mail.welcome '{"user_id": 7}' --queue mail --delay 10m
  weir enqueue report @args.json --wait=1m
  weir enqueue echo '"hello"' --wait`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.enqueue(cmd.Context(), args, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.queue, "queue", "", "queue (default \"default\")")
	flags.IntVar(&f.priority, "priority", 0, "1 (first) to 9 (default 5)")
	flags.Var(&f.delay, "delay", "start so long from now")
	flags.StringVar(&f.at, "at", "", "start at this `TIME`: 2006-01-02T15:04:05Z")
	flags.Var(&f.expiresIn, "expires-in", "end it if it has not started so long after\nit was due")
	flags.IntVar(&f.maxAttempts, "max-attempts", 0, "attempts that may fail (default 25)")
	flags.Var(&f.timeout, "timeout", "how long an attempt may run (default: its\nhandler's)")
	flags.BoolVar(&f.noTimeout, "no-timeout", false, "let an attempt run for ever")
	flags.StringVar(&f.backoff, "backoff", "", "wait after a failure: poly, \"fixed 5s\" or\n\"exp 1s 1h\" (default: its handler's)")
	flags.StringVar(&f.id, "id", "", "the job's id; one that exists changes nothing")
	flags.StringArrayVar(&f.keys, "key", nil, "a mutex: one job of this `NAME` runs at a time;\nmay be repeated, as --limit and --rate")
	flags.StringArrayVar(&f.limits, "limit", nil, "at most so many of a name: `NAME=N`")
	flags.StringArrayVar(&f.rates, "rate", nil, "NAME=N/PER[*WEIGHT]: at most N starts in a\nwindow, such as stripe=100/s")
	f.unique.on(flags)
	flags.StringVar(&f.onDiscard, "on-discard", "", "add a job of this `KIND` if it is discarded")
	flags.StringVar(&f.mode, "mode", "", "the least isolation that it asks for: inline,\nforked or spawned (default: its handler's)")
	flags.StringArrayVar(&f.tags, "tag", nil, "a tag; may be repeated")
	flags.StringArrayVar(&f.meta, "meta", nil, "name=value; may be repeated")
	flags.Var(&f.wait, "wait", "wait for the end and print the result;\n--wait=30s: at most so long")
	flags.Lookup("wait").NoOptDefVal = "true"
	return cmd
}

func (a *app) enqueue(ctx context.Context, args []string, f enqueueFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	payload, err := a.payload(args[1:])
	if err != nil {
		return err
	}
	return a.connect(ctx, func(s *session) error {
		e, err := s.Enqueue(ctx, job.Raw{Name: args[0], Payload: payload}, options)
		if err != nil {
			return err
		}
		if f.wait.duration > 0 {
			return a.await(ctx, s, e, time.Duration(f.wait.duration))
		}
		if a.json {
			return a.printJSON(enqueuedJSON{ID: e.ID, Duplicate: e.Duplicate, Replaced: e.Replaced})
		}
		note := map[bool]string{true: "  was there before: nothing changed"}[e.Duplicate]
		if !e.Replaced.IsZero() {
			note = "  in the place of " + e.Replaced.String()
		}
		a.print("%s%s\n", e.ID, note)
		return nil
	})
}

type enqueuedJSON struct {
	ID        job.ID          `json:"id"`
	Duplicate bool            `json:"duplicate,omitempty"`
	Replaced  job.ID          `json:"replaced,omitzero"`
	State     job.State       `json:"state,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// await prints the result of a job when it has ended.
func (a *app) await(ctx context.Context, s *session, e client.Enqueued, limit time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := client.Await[json.RawMessage](bounded, s.Client, e.ID)
	var failed *job.FailedError
	switch {
	case errors.As(err, &failed):
		if a.json {
			if err := a.printJSON(enqueuedJSON{e.ID, e.Duplicate, e.Replaced, failed.State, nil, failed.Message}); err != nil {
				return err
			}
		}
		return err
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("job %s has not ended within %v; it goes on\n-> weir jobs show %s", e.ID, limit, e.ID)
	case err != nil:
		return err
	case a.json:
		return a.printJSON(enqueuedJSON{e.ID, e.Duplicate, e.Replaced, job.Completed, result, ""})
	case len(result) == 0:
		a.print("%s  completed\n", e.ID)
		return nil
	}
	a.print("%s\n", escapeJSON(string(result)))
	return nil
}

// payload returns what the argument after the kind stands for.
func (a *app) payload(args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	var (
		text []byte
		err  error
	)
	switch arg := args[0]; {
	case arg == "-":
		text, err = readLimited(a.in)
	case strings.HasPrefix(arg, "@"):
		var f *os.File
		if f, err = os.Open(arg[1:]); err == nil {
			text, err = readLimited(f)
			_ = f.Close() // read only
		}
	default:
		text = []byte(arg)
	}
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	return text, job.ValidatePayload(text)
}

// readLimited reads no more than is needed to see that it is too much.
func readLimited(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, job.MaxPayloadBytes+1))
}

func (f *enqueueFlags) options() (o job.Options, err error) {
	o = job.Options{
		Queue: f.queue, Priority: f.priority, Delay: time.Duration(f.delay), ExpiresIn: time.Duration(f.expiresIn),
		MaxAttempts: f.maxAttempts, Timeout: time.Duration(f.timeout), Tags: f.tags,
	}
	if f.noTimeout {
		o.Timeout = job.NoTimeout
	}
	if f.id != "" {
		if o.ID, err = job.ParseID(f.id); err != nil {
			return o, err
		}
	}
	if f.at != "" {
		if o.ScheduledAt, err = time.Parse(time.RFC3339, f.at); err != nil {
			return o, usageError{fmt.Errorf("--at is %q, want a time such as 2006-01-02T15:04:05Z", f.at)}
		}
	}
	if f.backoff != "" {
		if o.Backoff, err = job.ParseBackoff(f.backoff); err != nil {
			return o, err
		}
	}
	if o.Keys, err = f.jobKeys(); err != nil {
		return o, err
	}
	o.OnDiscard = f.onDiscard
	if f.mode != "" {
		if o.Mode, err = job.ParseMode(f.mode); err != nil {
			return o, err
		}
	}
	if o.Unique, err = f.unique.option(); err != nil {
		return o, err
	}
	for _, pair := range f.meta {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return o, usageError{fmt.Errorf("--meta is %q, want name=value", pair)}
		}
		if o.Metadata == nil {
			o.Metadata = map[string]string{}
		}
		o.Metadata[name] = value
	}
	return o, nil
}

// jobKeys reads --key, --limit and --rate. A name may hold anything: what stands behind the last = is the number.
func (f *enqueueFlags) jobKeys() (keys []job.Key, err error) {
	for _, name := range f.keys {
		keys = append(keys, job.Mutex(name))
	}
	for _, text := range f.limits {
		i := strings.LastIndexByte(text, '=')
		n, err := strconv.Atoi(text[i+1:])
		if i < 0 || err != nil {
			return nil, usageError{fmt.Errorf("--limit is %q, want NAME=N", text)}
		}
		keys = append(keys, job.Limit(text[:i], n))
	}
	for _, text := range f.rates {
		i := strings.LastIndexByte(text, '=')
		if i < 0 {
			return nil, usageError{fmt.Errorf("--rate is %q, want NAME=N/PER, such as stripe=100/s", text)}
		}
		rate, weight, weighted := strings.Cut(text[i+1:], "*")
		n, per, err := parseRate(rate)
		if err != nil {
			return nil, err
		}
		k := job.Rate(text[:i], n, per)
		if weighted {
			w, err := strconv.Atoi(weight)
			if err != nil {
				return nil, usageError{fmt.Errorf("--rate is %q, want a number behind the *", text)}
			}
			k = k.Weight(w)
		}
		keys = append(keys, k)
	}
	return keys, nil
}
