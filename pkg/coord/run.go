package coord

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// connectTimeout bounds one attempt to connect and subscribe.
	connectTimeout = 2 * time.Second

	// A connection that was silent for idleTime is pinged; one that then stays silent for pongTime is dead. Together
	// they notice a half-open connection within five seconds.
	idleTime = 2 * time.Second
	pongTime = 2 * time.Second

	// echoEvery is how often a message is sent to our own channel. If it reaches no subscription, commands and
	// subscription hang on different servers (a failover that left this connection alone), and no hint would ever come.
	echoEvery = 10 * time.Second

	// Reconnects wait from minReconnect, doubling up to maxReconnect, each drawn from its upper half. The cap keeps hints
	// away for no more than a few seconds once the server is back.
	minReconnect = 50 * time.Millisecond
	maxReconnect = 2 * time.Second
)

var (
	errSilent  = errors.New("no answer to a ping")
	errUnheard = errors.New("commands and subscription reach different servers")
	errCut     = errors.New("the server ended the subscription")
)

// listener is one Run.
type listener struct {
	Receiver
	worker   string // whose hints come here
	channels []string
	lost     bool // between the loss of a subscription and the next one; only Run's goroutine uses it

	mu     sync.Mutex
	hangUp context.CancelCauseFunc // ends the standing connection, without waiting for it; nil before the first
}

// Run receives messages until ctx ends; then it returns nil, once all it started is gone. Losing Redis does not end it:
// it connects again, after a jittered wait of at most two seconds. The worker hears its own hints and all control
// messages; with an empty worker only the latter. A name must be used by one Run at a time.
func (b *Bus) Run(ctx context.Context, worker string, r Receiver) error {
	if !b.Enabled() {
		<-ctx.Done()
		return nil
	}
	l := &listener{Receiver: r, worker: worker}
	if worker == "" {
		// A channel of its own that nobody knows, for the echo.
		worker = "listener-" + rand.Text()
	}
	l.channels = []string{b.keys.worker(worker), b.keys.control()}
	b.join(l)
	defer b.part(l)

	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		subscribed, err := b.listen(ctx, l)
		if ctx.Err() != nil {
			break
		}
		// A connection that lived for a while was a good one: start over with the shortest wait. One that is cut as soon
		// as it stands must not be made anew without end.
		if subscribed && time.Since(began) > maxReconnect {
			failures = 0
		}
		if !l.lost {
			l.lost = true
			b.cfg.Logger.Warn("no redis subscription; connecting again", "worker", l.worker, "error", err)
		}
		pause(ctx, jitter(min(minReconnect<<min(failures, 10), maxReconnect)))
		failures++
	}
	return nil
}

func (b *Bus) join(l *listener) {
	b.count.running.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[l] = struct{}{}
}

func (b *Bus) part(l *listener) {
	b.mu.Lock()
	delete(b.listeners, l)
	b.mu.Unlock()
	b.count.running.Add(-1)
}

// resubscribe makes every Run of this bus connect anew. It does not wait.
func (b *Bus) resubscribe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for l := range b.listeners {
		l.mu.Lock()
		if l.hangUp != nil {
			l.hangUp(errUnheard)
		}
		l.mu.Unlock()
	}
}

// listen makes one connection, subscribes and reads until it breaks, resubscribe is called or ctx ends.
func (b *Bus) listen(ctx context.Context, l *listener) (subscribed bool, err error) {
	ctx, hangUp := context.WithCancelCause(ctx)
	defer hangUp(nil)
	l.mu.Lock()
	l.hangUp = hangUp
	l.mu.Unlock()

	sub := b.sub.Subscribe(ctx) // to nothing yet: no I/O
	// A read does not watch ctx, so the end of ctx closes the connection below it.
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = sub.Close()
	})
	defer func() {
		if stop() {
			_ = sub.Close()
		} else {
			<-closed
		}
	}()
	if err := b.subscribe(ctx, sub, l.channels); err != nil {
		return false, fmt.Errorf("subscribe: %w", err)
	}
	b.subscribed(l)
	defer b.count.subscribed.Add(-1)
	if l.OnSubscribed != nil {
		b.guard("OnSubscribed", l.OnSubscribed)
	}
	err = b.read(ctx, l, sub)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // not the closed connection that followed from it
	}
	return true, fmt.Errorf("read from subscription: %w", err)
}

// subscribed notes that the subscription stands.
func (b *Bus) subscribed(l *listener) {
	b.count.subscribed.Add(1)
	b.count.subscriptions.Add(1)
	b.breaker.hurry(time.Now()) // what OnSubscribed sends shall not meet a breaker that has not heard the news
	if l.lost {
		l.lost = false
		b.cfg.Logger.Info("redis subscription is back", "worker", l.worker)
	}
}

// subscribe asks for the channels and waits until the server has confirmed each of them.
func (b *Bus) subscribe(ctx context.Context, sub *redis.PubSub, channels []string) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	ask := sub.Subscribe
	if b.sharded {
		ask = sub.SSubscribe
	}
	if err := ask(ctx, channels...); err != nil {
		return err
	}
	for confirmed := 0; confirmed < len(channels); {
		message, err := sub.ReceiveTimeout(ctx, connectTimeout)
		if err != nil {
			return err
		}
		// A message that slips in between is dropped: OnSubscribed makes up for all that came before it.
		if _, ok := message.(*redis.Subscription); ok {
			confirmed++
		}
	}
	return nil
}

// read hands over messages until the connection is dead, or no longer the right one.
func (b *Bus) read(ctx context.Context, l *listener, sub *redis.PubSub) error {
	echo := time.Now().Add(jitter(echoEvery))
	pinged := false
	for ctx.Err() == nil {
		if time.Now().After(echo) {
			if err := b.echo(ctx, l); err != nil {
				return err
			}
			echo = time.Now().Add(jitter(echoEvery))
		}
		message, err := next(ctx, sub, pinged)
		switch {
		case isTimeout(err) && pinged:
			return errSilent
		case isTimeout(err):
			pinged = true
			if err := ping(ctx, sub); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		pinged = false // whatever came proves that the other side lives
		switch m := message.(type) {
		case *redis.Message:
			b.receive(l, m.Payload)
		case *redis.Subscription:
			// Nobody unsubscribes here, and go-redis subscribes again only after it has replaced the connection by
			// itself: either way messages may have been missed. A moved slot of a cluster ends up here, too.
			return errCut
		}
	}
	return nil
}

// next waits for a message. The deadline also bounds what go-redis does on an error: it dials anew before it returns.
func next(ctx context.Context, sub *redis.PubSub, pinged bool) (any, error) {
	wait := idleTime
	if pinged {
		wait = pongTime
	}
	ctx, cancel := context.WithTimeout(ctx, wait+time.Second)
	defer cancel()
	return sub.ReceiveTimeout(ctx, wait)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func ping(ctx context.Context, sub *redis.PubSub) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return sub.Ping(ctx)
}

// echo sends a message to our own channel. Only the answer that nobody heard it is news; an error says nothing about
// the subscription.
func (b *Bus) echo(ctx context.Context, l *listener) error {
	reached, err := b.send(ctx, "echo", l.channels[0], string(typeEcho))
	if err == nil && reached == 0 {
		return errUnheard
	}
	return nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
