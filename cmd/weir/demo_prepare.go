package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore/migrate"
	"github.com/weirq/weir/pkg/run"
)

// demo is one run of weir demo.
type demo struct {
	flags  demoFlags
	env    []string // of this process
	screen *screen
	ledger *ledger
	input  *input
	pace   pace

	servers   *servers
	namespace string
	isAway    bool // Postgres was not to be reached: there is no schema
	loaded    *config.Loaded
	client    *client.Client // the producer's; its statements are counted
	sent      *statements
	account   *account
	closers   []func() error // run backwards at the end

	jobs    []job.ID // in the order of input.jobs
	walAt   float64  // bytes of WAL that the server had written before the first job
	workers [2]*child
	sweeper *child

	begun    time.Time // when the workers were up
	victim   int       // which of workers was, or will be, killed
	holding  [2]bool
	sessions [2]job.ID // of the workers, as last seen while holding
	kill     *kill     // nil before it
	done     bool      // the figures are out
}

// cleanUp ends what prepare and show have begun, the last first.
func (d *demo) cleanUp() error {
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	d.closers = nil
	return errors.Join(errs...)
}

func (d *demo) atEnd(f func() error) { d.closers = append(d.closers, f) }

// prepare looks for files, starts the servers and makes the schema.
func (d *demo) prepare(ctx context.Context) (err error) {
	d.screen.say("weir demo: two workers and a sweeper share a queue; one worker will be killed.")
	d.screen.say("")
	if d.input, err = scan(ctx, d.flags.dir, d.flags.jobs); err != nil {
		return err
	}
	if d.pace, err = newPace(len(d.input.jobs), os.Getenv("WEIR_DEMO_PACE")); err != nil {
		return err
	}
	d.servers = &servers{}
	d.atEnd(func() error { return d.servers.close() })
	if err := d.servers.open(ctx, d.env, d.screen); err != nil {
		return err
	}
	d.namespace = "weir"
	if d.servers.postgres == nil {
		d.namespace = "weir_demo_" + strings.ToLower(rand.Text()[:8]) // the server is somebody's: touch nothing else there
	}
	if err := d.connect(); err != nil {
		return err
	}
	return d.makeSchema(ctx)
}

// connect makes two clients: the producer, and the one through which the demo looks on, whose statements do not count.
func (d *demo) connect() error {
	loaded, err := config.Read(config.Sources{Environ: d.environ()})
	if err != nil {
		return configError{err}
	}
	d.loaded, d.sent = loaded, &statements{}
	producer, closeProducer, err := run.Open(loaded.Config, run.Options{Name: "weir demo producer", Tracer: d.sent})
	if err != nil {
		return err
	}
	d.atEnd(func() error { closeProducer(); return nil })
	observer, closeObserver, err := run.Open(loaded.Config, run.Options{Name: "weir demo"})
	if err != nil {
		return err
	}
	d.atEnd(func() error { closeObserver(); return nil })
	d.client, d.account = producer, &account{client: observer}
	return nil
}

// environ is what the demo's own processes read: how to reach the servers, and nothing else of the caller's settings.
func (d *demo) environ() []string {
	return append(d.servers.environ[:len(d.servers.environ):len(d.servers.environ)], "WEIR_NAMESPACE="+d.namespace)
}

// makeSchema migrates the namespace and tells about servers, schema and input.
func (d *demo) makeSchema(ctx context.Context) error {
	d.atEnd(d.dropSchema) // before it is there: an interrupted migration leaves some of it
	begun := time.Now()
	if _, err := migrate.Up(ctx, d.account.client.Pool(), migrate.Config{Schema: d.namespace}); err != nil {
		if run.IsUnreachable(err) {
			d.isAway = true
			return unreachable{explained{err, d.loaded}}
		}
		return err
	}
	took := time.Since(begun)
	version, fsync, err := d.account.server(ctx)
	if err != nil {
		return err
	}
	d.servers.tell(d.screen, version, fsync)
	d.screen.say("  schema    %s   created in %d ms", d.namespace, took.Milliseconds())
	d.input.tell(d.screen)
	d.screen.say("")
	return nil
}

// dropSchema leaves somebody's server as it was. A private one goes as a whole.
func (d *demo) dropSchema() error {
	if d.servers.postgres != nil || d.isAway || d.flags.keep && d.done {
		return nil
	}
	// The demo's own context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return migrate.Drop(ctx, d.account.client.Pool(), d.namespace)
}
