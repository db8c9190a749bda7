package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// session is one lease of this process. After a loss the process goes on under a new one.
type session struct {
	id     job.ID
	ctx    context.Context // parent of its handlers' contexts; ended with job.ErrLeaseLost when it is given away
	cancel context.CancelCauseFunc
	watch  *time.Timer // the watchdog
	doubt  atomic.Bool // the lease may end before a renewal is accepted
}

func (s *session) lost() bool { return errors.Is(context.Cause(s.ctx), job.ErrLeaseLost) }

// sessionKeeper keeps the lease: its own goroutine and its own connection, so that neither handlers nor a full pool can
// starve it.
type sessionKeeper struct {
	mu      sync.Mutex
	current *session
	sent    time.Time // when the last accepted renewal was sent: the lease counts from there (fromSent)
	sweeper bool      // a sweeper lives, said the last renewal
	kick    chan struct{}
	closing bool
	ended   bool // the process gives its session up: what a renewal under way then hears of it is no loss
}

// open registers the process, again and again until it succeeds or ctx ends.
func (w *Worker) openSession(ctx context.Context) (*session, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		s, err := w.tryOpenSession(ctx)
		if err == nil {
			w.recovered("open session")
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		w.trouble("open session", err)
		sleep(ctx, jitter(wait))
	}
}

func (w *Worker) tryOpenSession(ctx context.Context) (*session, error) {
	s := &session{id: w.client.IDs().New()} // never a reused identity: a dead process' renewals cannot be mistaken for ours
	queues := make([]string, len(w.cfg.Queues))
	for i, q := range w.cfg.Queues {
		queues[i] = q.Name
	}
	_, slots := w.lanes.busy()
	sent := time.Now()
	now, err := w.renewal.OpenSession(ctx, pgstore.Session{
		ID: s.id, Role: "worker", Lease: w.cfg.Lease, Host: w.host, PID: os.Getpid(), Version: w.cfg.Version,
		Queues: queues, Kinds: w.kinds(), Slots: slots,
	})
	if err != nil {
		return nil, err
	}
	w.client.Learn(now, sent)
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.current, w.session.sent = s, sent
	s.watch = time.AfterFunc(time.Until(sent.Add(w.patience())), func() { w.doubt(s) })
	return s, nil
}

// live returns the session under which new jobs are claimed, nil while there is none.
func (w *Worker) live() *session {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	return w.session.current
}

// keepSession renews until ctx ends.
func (w *Worker) keepSession(ctx context.Context) {
	for first := true; ; first = false {
		wait := jitter(w.cfg.Renew)
		if first {
			wait = rand.N(w.cfg.Renew) // a fleet that was started together does not stay in step
		}
		if w.renewOnce(ctx) != nil {
			wait = min(wait, w.cfg.Renew/3) // a lease is short: try soon
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.session.kick:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// renewOnce sends one renewal and acts on what it brings back.
func (w *Worker) renewOnce(ctx context.Context) error {
	s := w.live()
	if w.sessionEnded() {
		return nil
	}
	if s == nil || s.lost() {
		opened, err := w.tryOpenSession(ctx)
		if err != nil {
			w.trouble("open session", err)
			return err
		}
		if w.sessionEnded() { // meanwhile
			return w.renewal.CloseSession(ctx, opened.id)
		}
		w.disp.sessionChanged()
		return nil
	}
	busy, slots := w.lanes.busy()
	// A renewal that hangs must not keep the next from being tried on a fresh connection; but one whose answer takes its
	// time has been accepted. Half a lease leaves room for both: a link that is slow by 0.4 of a lease costs no session.
	limit, cancel := context.WithTimeout(ctx, max(w.cfg.Lease/2, time.Second))
	defer cancel()
	sent := time.Now()
	changes, err := w.renewal.Renew(limit, s.id, pgstore.Renewal{
		Lease: w.cfg.Lease, Slots: slots, Busy: busy, State: w.sessionState(),
	})
	switch {
	case errors.Is(err, pgstore.ErrSessionLost) && w.sessionEnded():
		return nil
	case errors.Is(err, pgstore.ErrSessionLost):
		w.lose(s)
		return err
	case err != nil && ctx.Err() != nil:
		return err // the end of the process, not trouble
	case err != nil:
		w.trouble("renew", err)
		w.resetPools(err)
		return err
	}
	wasAway := w.recovered("renew")
	w.client.Learn(changes.Now, sent)
	w.session.mu.Lock()
	w.session.sent, w.session.sweeper = sent, changes.Sweeper
	s.doubt.Store(false)
	s.watch.Reset(time.Until(sent.Add(w.patience())))
	w.session.mu.Unlock()
	w.stats.renewLag.Store(int64(time.Since(sent)))
	w.advice.renew(w.tasks.of(s))
	w.obeyCancels(changes.Cancelled)
	w.obeyPauses(changes)
	// orphans: rows that name this session and that it does not know. A server that took over and lacks the last second may have
	// such rows and lack as many others, so that the numbers say nothing.
	if wasAway || changes.Running > w.tasks.countOf(s) {
		w.disp.reconcileSoon()
	}
	return nil
}

// endSession takes the session out of the renewals' hands, for its last statement.
func (w *Worker) endSession() *session {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	w.session.ended = true
	return w.session.current
}

func (w *Worker) sessionEnded() bool {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	return w.session.ended
}

func (w *Worker) sessionState() string {
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	if w.session.closing {
		return "draining"
	}
	return "serving"
}

// patience is how long after an accepted renewal was sent a lease is trusted.
func (w *Worker) patience() time.Duration { return w.cfg.Lease - w.cfg.Lease/5 }

// doubt is the watchdog: it counts from before the last accepted renewal was sent, on the monotonic clock, whatever the
// tries since then wait for. Most handlers go on, since what they do is fenced; those that asked for it, and all that hold
// keys, are stopped before the lease can have ended, and start with their contexts ended until a renewal is accepted.
func (w *Worker) doubt(s *session) {
	w.session.mu.Lock()
	silent := time.Since(w.session.sent) >= w.patience() // else a renewal came as the timer fired
	s.doubt.Store(silent)
	w.session.mu.Unlock()
	if !silent {
		return
	}
	for _, t := range w.tasks.of(s) {
		if t.stopsOnDoubt() {
			t.stop(job.ErrLeaseLost)
		}
	}
}

// stopsOnDoubt reports whether the handler is stopped before its lease can have ended: always where it holds keys, which
// go to another with the lease.
func (t *task) stopsOnDoubt() bool { return t.handler.stopOnDoubt || t.holdsKeys() }

// lose ends everything that a session holds: the sweeper has given it away. Nothing of it is written any more.
func (w *Worker) lose(s *session) {
	w.log.Error("lease lost: this process' jobs may run elsewhere", "session", s.id)
	s.watch.Stop()
	s.cancel(job.ErrLeaseLost)
	for _, t := range w.lanes.takeWaiting(func(t *task) bool { return t.session != s }) {
		if t.decide() {
			w.drop(t, job.ErrLeaseLost)
		}
	}
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	if w.session.current == s {
		w.session.current = nil
	}
	w.kickSession()
}

// kickSession makes the next renewal follow at once.
func (w *Worker) kickSession() {
	select {
	case w.session.kick <- struct{}{}:
	default:
	}
}

// drop forgets a task whose result would be refused, and says so.
func (w *Worker) drop(t *task, why error) {
	w.tasks.remove(t)
	w.unkeep(t)
	t.traceEnd(EventLeaseLost, why)
	w.stats.leaseLost.Add(1)
	w.events.send(Event{Type: EventLeaseLost, Row: t.row, Err: why, Next: Next{State: job.Available, WillRetry: true}})
}

// sweeperLives reports whether hints for delayed and lost jobs come from a sweeper, over Redis. One that is out of memory is
// up and refuses our registration: then they come to others.
func (w *Worker) sweeperLives() bool {
	if w.disp.unlisted.Load() {
		return false
	}
	w.session.mu.Lock()
	defer w.session.mu.Unlock()
	return w.session.sweeper && w.bus.Enabled() && w.bus.Healthy() && time.Since(w.session.sent) < w.cfg.Lease
}

// jitter spreads d by ± 10 %, so that a fleet that was stopped together does not stay in step.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
