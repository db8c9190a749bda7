package client_test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
)

// proxy stands between a pool and the server and can lose an answer.
type proxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	marker []byte // once a client has sent this, the next answer to it is dropped and its connection closed
	dials  int
}

// proxied returns a pool that goes through a proxy to the shared server.
func proxied(tb testing.TB, change ...func(*pgxpool.Config)) (*pgxpool.Pool, *proxy) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server, err := pgxpool.ParseConfig(testenv.Postgres(tb))
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{listener: listener, target: net.JoinHostPort(server.ConnConfig.Host, strconv.Itoa(int(server.ConnConfig.Port)))}
	var wg sync.WaitGroup
	wg.Go(func() { p.serve(&wg) })
	tb.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	pool := poolBy(tb, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Host, cfg.ConnConfig.Port = "127.0.0.1", uint16(listener.Addr().(*net.TCPAddr).Port)
		cfg.ConnConfig.Fallbacks, cfg.ConnConfig.TLSConfig = nil, nil // the marker must be readable
		for _, f := range change {
			f(cfg)
		}
	})
	return pool, p
}

// loseAnswerTo makes the proxy drop the answer to the next request that contains marker, once the server has sent it.
func (p *proxy) loseAnswerTo(marker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marker = []byte(marker)
}

// connections returns how many were made so far.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *proxy) serve(wg *sync.WaitGroup) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.dials++
		p.mu.Unlock()
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		link := &link{proxy: p, near: near, far: far}
		wg.Go(link.up)
		wg.Go(link.down)
	}
}

// link is one connection through the proxy.
type link struct {
	proxy     *proxy
	near, far net.Conn

	mu     sync.Mutex
	isDeaf bool // the next answer is lost
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

// look finds the marker in what the client sends.
func (l *link) look(data []byte) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if len(l.proxy.marker) == 0 || !bytes.Contains(data, l.proxy.marker) {
		return
	}
	l.proxy.marker = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isDeaf = true
}

func (l *link) down() {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.far.Read(buf)
		l.mu.Lock()
		isDeaf := l.isDeaf
		l.mu.Unlock()
		if err != nil || isDeaf {
			return
		}
		if _, err := l.near.Write(buf[:n]); err != nil && err != io.EOF {
			return
		}
	}
}
