package coord

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnavailable reports that Redis did not serve a command: it gave no answer in time, refused the connection, said
// that it cannot serve now, or was not even asked since the circuit breaker is open. What was to be sent is lost.
var ErrUnavailable = errors.New("coord: redis unavailable")

const (
	defaultTimeout = 100 * time.Millisecond

	// maxFlights bounds the commands that wait for an answer at the same time, and so the goroutines that a client
	// without deadlines of its own can hold up.
	maxFlights = 128
)

// Config tunes a Bus. The zero value is the default.
type Config struct {
	// Namespace parts several deployments that share a Redis; it is also the hash tag. Zero means "weir".
	Namespace string

	// Timeout is how long one command may take until its caller gives it up, with all that go-redis does for it: waiting
	// for a connection, dialling, retries. Zero or less means 100ms.
	Timeout time.Duration

	// Logger gets a line when Redis goes away and when it is back. Nil discards it.
	Logger *slog.Logger
}

// Bus sends and receives hints and asks for locks and rates. It is safe for concurrent use. It owns no connection: the client is the caller's, who
// closes it after the last call and after Run has returned.
type Bus struct {
	cfg     Config
	keys    keys
	rdb     redis.UniversalClient // nil: without Redis
	sub     redis.UniversalClient // the same, with the timeouts of a subscriber
	sharded bool                  // a cluster: SSUBSCRIBE and SPUBLISH
	breaker breaker
	flights chan struct{} // a token for each command on its way
	stale   atomic.Bool   // a server said READONLY: subscriptions may hang on a former primary
	count   counters

	mu        sync.Mutex
	listeners map[*listener]struct{} // one for each Run
}

// New returns a bus over rdb: a single server, sentinels or a cluster. It does no I/O. With a nil rdb the bus does
// nothing: its commands return nil, Run waits for its context, Enabled and Healthy are false.
//
// A *redis.Client is used through a copy that shares its connections but keeps our deadlines and retries once, whatever
// its options say; its hooks see the dialling, not our commands. Other clients are used as they are: set
// ContextTimeoutEnabled on them, or a silent server holds their connections for their own ReadTimeout, and Protocol: 2,
// or go-redis may drop published messages (redis/go-redis#3839).
func New(rdb redis.UniversalClient, cfg Config) *Bus {
	if cfg.Namespace == "" {
		cfg.Namespace = "weir"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bus{
		cfg:       cfg,
		keys:      newKeys(cfg.Namespace),
		flights:   make(chan struct{}, maxFlights),
		listeners: map[*listener]struct{}{},
	}
	switch c := rdb.(type) {
	case *redis.Client:
		if c != nil { // a nil *redis.Client in a config field is no client either
			// go-redis rounds "now" down by up to 50ms when it sets a read deadline. The context bounds exactly.
			b.rdb, b.sub = tuned(c, 2*cfg.Timeout+50*time.Millisecond), subscriber(c)
		}
	case *redis.ClusterClient:
		if c != nil {
			b.rdb, b.sub, b.sharded = c, c, true
		}
	case nil:
	default:
		b.rdb, b.sub = c, c
	}
	return b
}

// tuned copies a client that goes on using the same connections.
func tuned(c *redis.Client, timeout time.Duration) *redis.Client {
	c = c.WithTimeout(timeout) // a copy with options of its own
	opt := c.Options()
	opt.ContextTimeoutEnabled = true
	// One retry hides a connection that the server closed while it was idle; 3,000 of them would hold the pool (B83).
	opt.MaxRetries = min(opt.MaxRetries, 1)
	opt.MinRetryBackoff, opt.MaxRetryBackoff = time.Millisecond, 10*time.Millisecond
	return c
}

// subscriber copies a client for Run. It speaks RESP2: with RESP3 go-redis silently drops a published message whose
// first bytes end a read buffer (redis/go-redis#3839; 10 of 50,000 in our test), and some later releases hang (#3935).
func subscriber(c *redis.Client) *redis.Client {
	c = tuned(c, connectTimeout)
	c.Options().Protocol = 2
	return c
}

// Enabled reports whether there is a Redis client at all.
func (b *Bus) Enabled() bool { return b.rdb != nil }

// Healthy reports whether hints flow: the breaker is closed and every Run has its subscription. A bus without Redis is
// not healthy, which is no fault: ask Enabled first.
func (b *Bus) Healthy() bool {
	isClosed, _ := b.breaker.state()
	return b.Enabled() && isClosed && b.count.running.Load() == b.count.subscribed.Load()
}

// Stats are counts since New, except Running and Subscribed, which are what stands now.
type Stats struct {
	HintsSent      uint64 // hints that reached a worker's subscription
	HintsUnheard   uint64 // idle workers popped whose subscription was gone
	HintsLost      uint64 // hints that were not sent, Redis being away
	HintsExhausted uint64 // hints given up after MaxHops
	HintsHeard     uint64 // hints received by this process
	ControlsSent   uint64 // control messages published
	ControlsHeard  uint64 // control messages received by this process
	LocksGone      uint64 // members to be renewed that Redis did not have
	LocksWrong     uint64 // members that Redis had and Postgres did not, found by WriteHolders: leaked ones, and grants not decided yet
	LocksMissing   uint64 // members that Postgres had and Redis did not, found by WriteHolders
	Garbled        uint64 // messages received that could not be read
	Panics         uint64 // callbacks of a Receiver that panicked
	Failures       uint64 // commands that got no answer, or an error
	Refused        uint64 // commands not sent, the breaker being open
	BreakerOpens   uint64 // times that the breaker opened
	Subscriptions  uint64 // subscriptions made: the first of each Run and every one after a loss
	Running        int64  // Runs under way
	Subscribed     int64  // of these, those with a standing subscription
}

type counters struct {
	sent, unheard, lost, exhausted, heard atomic.Uint64
	controlsSent, controlsHeard           atomic.Uint64
	locksGone, locksWrong, locksMissing   atomic.Uint64
	garbled, panics, failures, refused    atomic.Uint64
	subscriptions                         atomic.Uint64
	running, subscribed                   atomic.Int64
}

// Stats returns the counts for metrics. They are read one after the other, not at one instant.
func (b *Bus) Stats() Stats {
	_, opens := b.breaker.state()
	c := &b.count
	return Stats{
		HintsSent:      c.sent.Load(),
		HintsUnheard:   c.unheard.Load(),
		HintsLost:      c.lost.Load(),
		HintsExhausted: c.exhausted.Load(),
		HintsHeard:     c.heard.Load(),
		ControlsSent:   c.controlsSent.Load(),
		ControlsHeard:  c.controlsHeard.Load(),
		LocksGone:      c.locksGone.Load(),
		LocksWrong:     c.locksWrong.Load(),
		LocksMissing:   c.locksMissing.Load(),
		Garbled:        c.garbled.Load(),
		Panics:         c.panics.Load(),
		Failures:       c.failures.Load(),
		Refused:        c.refused.Load(),
		BreakerOpens:   opens,
		Subscriptions:  c.subscriptions.Load(),
		Running:        c.running.Load(),
		Subscribed:     c.subscribed.Load(),
	}
}
