package worker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
)

// wire is between a pool, and the worker's own connections, and the server; it can lose an answer.
type wire struct {
	mu     sync.Mutex
	marker []byte // once this was sent, the next answer on that connection is dropped and the connection closed
	lost   int
}

// wired returns a rig whose statements go over a wire, each with its text.
func wired(t *testing.T) (*rig, *wire) {
	t.Helper()
	_, namespace := testenv.Schema(t)
	cfg, err := pgxpool.ParseConfig(testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	cfg.ConnConfig.DialFunc = w.dial
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c, err := client.New(pool, client.Config{Namespace: namespace, Pooler: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &rig{c, t, pool, namespace}, w
}

// lose drops the answer to the next statement that contains text. The server has the statement and carries it out.
func (w *wire) lose(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marker = []byte(text)
}

func (w *wire) losses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &link{Conn: c, wire: w}, nil
}

// link is one connection.
type link struct {
	net.Conn
	wire *wire

	mu     sync.Mutex
	isDeaf bool
}

func (l *link) Write(b []byte) (int, error) {
	l.wire.mu.Lock()
	if len(l.wire.marker) > 0 && bytes.Contains(b, l.wire.marker) && executes(b) {
		l.wire.marker = nil
		l.wire.lost++
		l.mu.Lock()
		l.isDeaf = true
		l.mu.Unlock()
	}
	l.wire.mu.Unlock()
	return l.Conn.Write(b)
}

func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDeaf {
		_ = l.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// executes reports whether messages to the server carry a statement out, rather than only describe it.
func executes(b []byte) bool {
	for len(b) >= 5 {
		if b[0] == 'E' {
			return true
		}
		n := 1 + int(binary.BigEndian.Uint32(b[1:]))
		if n > len(b) {
			return false
		}
		b = b[n:]
	}
	return false
}
