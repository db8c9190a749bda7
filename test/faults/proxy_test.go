//go:build unix

package faults_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy is a link between a process and a server that can be slow, lose an answer, or go silent.
type proxy struct {
	listener net.Listener
	target   string
	slow     atomic.Int64 // delay of each answer, in ns
	isShut   atomic.Bool

	mu     sync.Mutex
	links  map[*link]struct{}
	marker []byte // the answer to the next request that holds it is lost, with its connection
	lost   int
}

type link struct {
	proxy     *proxy
	near, far net.Conn
	deaf      atomic.Bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, links: map[*link]struct{}{}}
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(&wg) })
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// delay makes every answer come so much later.
func (p *proxy) delay(d time.Duration) { p.slow.Store(int64(d)) }

// shut ends all connections and takes no new ones until open is called.
func (p *proxy) shut() {
	p.isShut.Store(true)
	p.cut()
}

func (p *proxy) open() { p.isShut.Store(false) }

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// loseAnswerTo lets the next request that holds marker reach the server, swallows the answer and ends the connection.
func (p *proxy) loseAnswerTo(marker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marker = []byte(marker)
}

func (p *proxy) lostAnswers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) serve(wg *sync.WaitGroup) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err == nil && p.isShut.Load() {
			_, err = far.Close(), net.ErrClosed
		}
		if err != nil {
			_ = near.Close()
			continue
		}
		l := &link{proxy: p, near: near, far: far}
		p.mu.Lock()
		p.links[l] = struct{}{}
		p.mu.Unlock()
		wg.Go(l.up)
		wg.Go(l.down)
	}
}

func (l *link) close() {
	_ = l.near.Close()
	_ = l.far.Close()
}

func (l *link) up() {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.near.Read(buf)
		if err != nil {
			return
		}
		l.look(buf[:n])
		if _, err := l.far.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) look(data []byte) {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.marker) > 0 && bytes.Contains(data, p.marker) {
		p.marker = nil
		p.lost++
		l.deaf.Store(true)
	}
}

func (l *link) down() {
	defer func() {
		l.close()
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.far.Read(buf)
		if err != nil || l.deaf.Load() {
			return
		}
		if d := l.proxy.slow.Load(); d > 0 {
			pause(time.Duration(d))
		}
		if _, err := l.near.Write(buf[:n]); err != nil && err != io.EOF {
			return
		}
	}
}
