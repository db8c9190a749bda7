package embedded

import (
	"context"
	"errors"
	"fmt"
)

var errClosed = errors.New("embedded: server is closed")

// Kill ends the postmaster and all its children with SIGKILL and returns when they are gone: the crash of the whole
// server. Data stay; what was committed survives if fsync is on or the machine stays up. It may be called again.
func (p *Postgres) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if err := p.proc.kill(); err != nil {
		return fmt.Errorf("kill Postgres: %w", err)
	}
	return nil
}

// Pause stops the postmaster and all backends with SIGSTOP: connections stay open and nothing answers, as with a
// frozen machine or a black-holed network.
func (p *Postgres) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	return p.proc.pause()
}

// Resume lets a paused server go on.
func (p *Postgres) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	return p.proc.resume()
}

// Restart stops the server if it runs and starts it again on the same port with the same data; after Kill it recovers
// from its write-ahead log. It returns when the server answers; ctx and a minute bound the wait.
func (p *Postgres) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if err := p.proc.stop(stopPostgres); err != nil {
		return fmt.Errorf("restart Postgres: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := p.launch(ctx); err != nil {
		return fmt.Errorf("restart Postgres: %w", err)
	}
	return nil
}
