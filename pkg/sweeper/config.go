package sweeper

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// Retention is how long ended jobs can be looked up, on the database clock. A partition goes when all of it is older, so
// a job stays for up to one partition's width longer.
type Retention struct {
	// Completed is for jobs that completed. It is also for how long an id is remembered, counted from the time in it: an
	// enqueue with the same id is a duplicate within it, a new job after it. Zero means 24h.
	Completed time.Duration
	// Dead is for jobs that were discarded, cancelled or expired, and for failed attempts. Zero means 14 days.
	Dead time.Duration
}

// Config tunes a Sweeper. The zero value is the default.
type Config struct {
	// Lease is how long this sweeper counts as living after its last renewal; it renews every Lease/5. It is also the
	// least time after which it calls others dead. Zero means 15s; below 3s New returns an error.
	Lease time.Duration
	// Recover, Wake, Fire, Expire and Rotate are how often these duties run, give or take a tenth. Zero means 1s, 250ms, 1s, 5s,
	// 1min. Schedules are fired to the tick: Fire is how often is looked for those that were declared or changed meanwhile.
	Recover time.Duration
	Wake    time.Duration
	Fire    time.Duration
	Expire  time.Duration
	Rotate  time.Duration
	// Retention is how long ended jobs are kept.
	Retention Retention
	// Width is how long a stretch of time a new partition holds. Zero means a day.
	Width pgstore.Width
	// Ahead is how many partitions are made in advance. Zero means Width.Ahead(): 2 days, 6 hours or 15 minutes.
	Ahead int
	// DutiesOff are duties that Run leaves to other sweepers.
	DutiesOff []string
	// OnEvent is told of every job that was recovered or expired, after the commit, in the duty's goroutine: it delays
	// the duty. A panic in it is logged. Nil means nobody is told.
	OnEvent func(Event)
	// Version is shown in the list of processes. Zero means empty.
	Version string
	// Logger gets a line for each job recovered, and when trouble begins and ends. Nil means the client's.
	Logger *slog.Logger
}

// minLease is the shortest lease: with a shorter one a pause of the collector or the network would be a death.
const minLease = 3 * time.Second

// names are the duties in the order of Duties.
var names = []string{"recover", "wake", "unblock", "reconcile", "fire", "stragglers", "expire", "rotate", "uniques", "reports", "sessions", "counts"}

// withDefaults fills in what is zero and checks the rest.
func (c Config) withDefaults() (Config, error) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"Lease", &c.Lease, 15 * time.Second},
		{"Recover", &c.Recover, time.Second},
		{"Wake", &c.Wake, 250 * time.Millisecond},
		{"Fire", &c.Fire, time.Second},
		{"Expire", &c.Expire, 5 * time.Second},
		{"Rotate", &c.Rotate, time.Minute},
		{"Retention.Completed", &c.Retention.Completed, 24 * time.Hour},
		{"Retention.Dead", &c.Retention.Dead, 14 * 24 * time.Hour},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("sweeper: %s is %v, want 0 or more", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.Lease < minLease {
		return c, fmt.Errorf("sweeper: Lease is %v, want %v or more", c.Lease, minLease)
	}
	if !c.Width.Valid() {
		return c, fmt.Errorf("sweeper: Width is %v, want Day, Hour or Minute", c.Width)
	}
	if c.Ahead < 0 {
		return c, fmt.Errorf("sweeper: Ahead is %d, want 0 or more", c.Ahead)
	}
	if c.Ahead == 0 {
		c.Ahead = c.Width.Ahead()
	}
	for _, off := range c.DutiesOff {
		if !slices.Contains(names, off) {
			return c, fmt.Errorf("sweeper: DutiesOff has %q, want some of %v", off, names)
		}
	}
	return c, nil
}
