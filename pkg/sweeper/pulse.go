package sweeper

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// pulse is this sweeper's session and what its heartbeats say about the database.
type pulse struct {
	mu      sync.Mutex
	trust   trust
	session job.ID        // zero: none
	lease   time.Duration // the longest of all live sessions, own included
	gap     time.Duration // between two renewals of the most frequent process
	held    bool          // whether trust held when it was last asked for
}

func newPulse(lease time.Duration) *pulse {
	every := lease / 5
	return &pulse{trust: trust{every: every + every/10}, lease: lease, gap: every}
}

func (p *pulse) state(now time.Time) (session job.ID, trusted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.trust.holds(now, p.lease)
}

// permit returns the own session and until when, on the database clock, others may be marked dead.
func (p *pulse) permit(now time.Time) (session job.ID, by time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session.IsZero() || !p.trust.holds(now, p.lease) {
		return job.ID{}, time.Time{}, false
	}
	return p.session, p.trust.by(now), true
}

// changed reports whether trust began or ended since the last call.
func (p *pulse) changed(now time.Time) (holds, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	holds = p.trust.holds(now, p.lease)
	changed = holds != p.held
	p.held = holds
	return holds, changed
}

func (p *pulse) tick(now time.Time, every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trust.tick(now, every)
}

// note takes in how a statement of the duty recover went.
func (p *pulse) note(now time.Time, took time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trust.ran(took, p.gap)
	if err != nil {
		p.trust.failed()
	}
	p.trust.tickAt = now // a round of many statements is no late tick
}

// beatOnce renews the session, and opens one where there is none.
func (s *Sweeper) beatOnce(ctx context.Context) error {
	p := s.pulse
	session, _ := p.state(time.Now())
	if session.IsZero() {
		opened, err := s.openSession(ctx)
		if err != nil {
			p.fail(job.ID{})
			return err
		}
		session = opened
	}
	sent := time.Now()
	b, err := s.life.Beat(ctx, session, s.cfg.Lease)
	answered := time.Now()
	if errors.Is(err, pgstore.ErrSessionLost) {
		p.fail(job.ID{}) // another sweeper gave this one up: the next beat opens a new session
		return err
	}
	if err != nil {
		p.fail(session)
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = session
	p.lease = max(b.Longest, s.cfg.Lease)
	p.gap = max(min(b.Shortest, s.cfg.Lease), minLease) / 5 // a row by hand must not make every statement slow
	p.trust.ran(answered.Sub(sent), p.gap)
	p.trust.beat(sent, answered, b.Now)
	return nil
}

// fail notes a heartbeat that was not committed; the session goes on, or is gone if it is the zero ID.
func (p *pulse) fail(session job.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = session
	p.trust.failed()
}

func (s *Sweeper) openSession(ctx context.Context) (job.ID, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // shown to people, nothing depends on it
	}
	id := s.ids.New()
	_, err = s.life.OpenSession(ctx, pgstore.Session{
		ID: id, Role: "sweeper", Lease: s.cfg.Lease, Host: host, PID: os.Getpid(), Version: s.cfg.Version,
	})
	return id, err
}

// closeSession tells workers at once that this sweeper is gone; when it fails, they learn it when the lease ends.
func (s *Sweeper) closeSession(ctx context.Context) {
	session, _ := s.pulse.state(time.Now())
	if session.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	if err := s.life.CloseSession(ctx, session); err != nil {
		s.log.Warn("sweeper session stays until its lease ends", "err", err)
	}
	s.pulse.fail(job.ID{})
}
