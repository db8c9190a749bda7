package testenv

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Proxy is a link of TCP between a process and a server that can be slow, lose an answer, be cut, or go silent. Its methods
// may be called from several goroutines.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	target   string
	slow     time.Duration
	isShut   bool
	isSilent bool
	links    map[*link]struct{}
	marker   []byte // the answer to the next request that holds it is lost, with its connection
	lost     int
	dials    int
}

// link is one connection through a proxy.
type link struct {
	proxy     *Proxy
	near, far net.Conn
	isDeaf    bool // its next answer is lost; guarded by the proxy's mu
}

// NewProxy returns a link to target, host and port, on a loopback port of its own. It is gone when the test ends.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal("open a proxy: ", err)
	}
	p := &Proxy{listener: l, target: target, links: map[*link]struct{}{}}
	p.wg.Go(p.serve)
	tb.Cleanup(func() {
		_ = l.Close()
		p.Shut()
		p.wg.Wait()
	})
	return p
}

// Addr is the proxy's host and port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Through returns a server's URL with the proxy in the server's place.
func (p *Proxy) Through(tb testing.TB, server string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal("read the server's URL: ", err)
	}
	u.Host = p.Addr()
	return u.String()
}

// Lead sends new connections to another server.
func (p *Proxy) Lead(target string) { p.set(func() { p.target = target }) }

// Delay makes every answer come so much later.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.slow = d }) }

// Silence swallows all bytes, both ways, while connections stay open: a network that drops packets.
func (p *Proxy) Silence(on bool) { p.set(func() { p.isSilent = on }) }

// Shut ends all connections and refuses new ones until Open is called.
func (p *Proxy) Shut() {
	p.set(func() { p.isShut = true })
	p.Cut()
}

// Open is the end of Shut.
func (p *Proxy) Open() { p.set(func() { p.isShut = false }) }

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.set(func() {
		for l := range p.links {
			l.close()
		}
	})
}

// LoseAnswerTo lets the next request that holds marker reach the server, swallows the answer and ends the connection.
func (p *Proxy) LoseAnswerTo(marker string) { p.set(func() { p.marker = []byte(marker) }) }

// Lost returns how many answers were lost so.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Connections returns how many were made so far.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.dials++
		target := p.target
		p.mu.Unlock()
		far, err := net.Dial("tcp", target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.join(&link{proxy: p, near: near, far: far})
	}
}

// join lets bytes flow, unless the proxy was shut meanwhile.
func (p *Proxy) join(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isShut {
		l.close()
		return
	}
	p.links[l] = struct{}{}
	p.wg.Go(l.up)
	p.wg.Go(l.down)
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
		if l.asked(buf[:n]) {
			continue
		}
		if _, err := l.far.Write(buf[:n]); err != nil {
			return
		}
	}
}

// asked looks for the marker in a request; isLost says that the server is not to have it.
func (l *link) asked(data []byte) (isLost bool) {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.marker) > 0 && bytes.Contains(data, p.marker) {
		p.marker = nil
		p.lost++
		l.isDeaf = true
	}
	return p.isSilent
}

func (l *link) down() {
	defer func() {
		l.close()
		l.proxy.set(func() { delete(l.proxy.links, l) })
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.far.Read(buf)
		isDeaf, isLost, slow := l.answered()
		if err != nil || isDeaf {
			return
		}
		if isLost {
			continue
		}
		if slow > 0 {
			<-time.After(slow)
		}
		if _, err := l.near.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) answered() (isDeaf, isLost bool, slow time.Duration) {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.isDeaf, p.isSilent, p.slow
}
