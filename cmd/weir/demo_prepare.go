package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
	screen *screen
	ledger *ledger
	input  *input
	pace   pace

	servers   *servers
	namespace string
	config    config.Config
	client    *client.Client // the producer's; its statements are counted
	sent      *statements
	account   *account
	closers   []func() error // run backwards at the end

	jobs    []job.ID // in the order of input.jobs
	walAt   float64  // bytes of WAL that the server had written before the first job
	workers [2]*child
	sweeper *child

	begun   time.Time // when the workers were up
	victim  int       // which of workers was, or will be, killed
	holding [2]bool
	kill    *kill // nil before it
	done    bool  // the figures are out
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
	if err := d.servers.open(ctx, os.Environ(), d.screen); err != nil {
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
		return fmt.Errorf("read the environment: %w", err)
	}
	d.config, d.sent = loaded.Config, &statements{}
	producer, closeProducer, err := run.Open(d.config, run.Options{Name: "weir demo producer", Tracer: d.sent})
	if err != nil {
		return err
	}
	d.atEnd(func() error { closeProducer(); return nil })
	observer, closeObserver, err := run.Open(d.config, run.Options{Name: "weir demo"})
	if err != nil {
		return err
	}
	d.atEnd(func() error { closeObserver(); return nil })
	d.client, d.account = producer, &account{pool: observer.Pool(), schema: d.namespace}
	return nil
}

// environ is what the demo's own processes read: how to reach the servers, and nothing else of the caller's settings.
func (d *demo) environ() []string {
	return append(d.servers.environ[:len(d.servers.environ):len(d.servers.environ)], "WEIR_NAMESPACE="+d.namespace)
}

// makeSchema migrates the namespace and tells about servers, schema and input.
func (d *demo) makeSchema(ctx context.Context) error {
	begun := time.Now()
	if _, err := migrate.Up(ctx, d.account.pool, migrate.Config{Schema: d.namespace}); err != nil {
		return err
	}
	took := time.Since(begun)
	if d.servers.postgres == nil && !d.flags.keep {
		d.atEnd(d.account.dropSchema)
	}
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
