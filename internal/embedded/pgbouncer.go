package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// PgBouncerConfig says which server a private PgBouncer stands before.
type PgBouncerConfig struct {
	// Target is the URL of the server. Required. Its user and database are those of all clients.
	Target string
	// PoolSize is how many connections to the server it opens at most. Zero means 20.
	PoolSize int
	// MaxPreparedStatements is how many prepared statements it tracks for a connection. Zero means none, so that
	// clients must do without. It needs PgBouncer 1.21.
	MaxPreparedStatements int
	// Port is the loopback port to listen on. Zero means a random free one.
	Port int
	// Log gets what it writes. Nil means nobody.
	Log io.Writer
}

// PgBouncer is a private pooler in transaction mode: each transaction may run on another connection.
type PgBouncer struct {
	cfg    PgBouncerConfig
	target *pgconn.Config
	bin    string
	place  place
	guard  *watchdog
	as     *account
	port   int

	mu     sync.Mutex
	proc   *process
	closed bool
}

// StartPgBouncer starts a pooler and returns when it answers; the target need not. ctx bounds the start only. An error
// wraps ErrNoBinary when there is no program pgbouncer on PATH or in /usr/sbin.
func StartPgBouncer(ctx context.Context, cfg PgBouncerConfig) (*PgBouncer, error) {
	if !supported {
		return nil, fmt.Errorf("start PgBouncer: %w: not on this system", ErrNoBinary)
	}
	target, err := pgconn.ParseConfig(cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	if cfg.PoolSize == 0 {
		cfg.PoolSize = 20
	}
	b := &PgBouncer{cfg: cfg, target: target}
	if b.bin, err = lookPgBouncer(cfg.MaxPreparedStatements); err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start PgBouncer: %w", err), b.Close())
	}
	return b, nil
}

// lookPgBouncer finds the program; /usr/sbin is where packages put it and not on every user's PATH.
func lookPgBouncer(prepared int) (string, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if bin, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return "", fmt.Errorf("%w: pgbouncer, looked in $PATH and /usr/sbin", ErrNoBinary)
		}
	}
	if prepared == 0 {
		return filepath.Abs(bin)
	}
	out, err := exec.Command(bin, "--version").Output() // "PgBouncer 1.18.0\n…"
	if err != nil {
		return "", fmt.Errorf("ask pgbouncer for its version: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	var major, minor int
	if _, err := fmt.Sscanf(first, "PgBouncer %d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("read pgbouncer's version %q: %w", first, err)
	}
	if major == 1 && minor < 21 {
		return "", fmt.Errorf("%w: prepared statements need PgBouncer 1.21, this is %d.%d", ErrNoBinary, major, minor)
	}
	return filepath.Abs(bin)
}

func (b *PgBouncer) start(ctx context.Context) error {
	var err error
	if b.as, err = unprivileged(); err != nil { // it refuses root, too
		return err
	}
	if b.place, err = makePlace("weir-pgbouncer-*", "", b.as); err != nil {
		return err
	}
	b.place.data = b.place.temp
	if err := b.place.openLog(); err != nil {
		return err
	}
	if b.guard, err = startWatchdog(b.place.temp, "TERM", "KILL"); err != nil {
		return err
	}
	return withPort(b.cfg.Port, func(port int) error {
		b.port = port
		return b.launch(ctx)
	})
}

func (b *PgBouncer) launch(ctx context.Context) error {
	ini := filepath.Join(b.place.data, "pgbouncer.ini")
	if err := os.WriteFile(ini, []byte(b.ini()), 0o600); err != nil { // it may hold a password
		return fmt.Errorf("write pgbouncer.ini: %w", err)
	}
	if err := b.as.own(ini); err != nil {
		return err
	}
	proc, err := launch(command{
		path: b.bin, args: []string{ini}, dir: b.place.data, as: b.as, log: b.place.log, copy: b.cfg.Log,
	}, b.guard)
	if err != nil {
		return err
	}
	b.proc = proc
	if err := proc.await(ctx, "wait for PgBouncer", b.probe); err != nil {
		return errors.Join(err, proc.kill())
	}
	return nil
}

// mark is a database that only this pooler knows.
func (b *PgBouncer) mark() string { return filepath.Base(b.place.temp) }

func (b *PgBouncer) ini() string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	server := fmt.Sprintf("host=%s port=%d user=%s", quote(b.target.Host), b.target.Port, quote(b.target.User))
	if b.target.Password != "" {
		server += " password=" + quote(b.target.Password)
	}
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = %s", server),
		fmt.Sprintf("%s = %s dbname=%s", b.mark(), server, quote(b.target.Database)),
		"[pgbouncer]",
		"listen_addr = " + loopback,
		"listen_port = " + strconv.Itoa(b.port),
		"unix_socket_dir =",
		"auth_type = any", // everybody becomes the target's user
		"pool_mode = transaction",
		"default_pool_size = " + strconv.Itoa(b.cfg.PoolSize),
		"max_client_conn = 2000",
		"ignore_startup_parameters = extra_float_digits",
	}
	if b.target.TLSConfig != nil {
		lines = append(lines, "server_tls_sslmode = require")
	}
	if b.cfg.MaxPreparedStatements > 0 {
		lines = append(lines, "max_prepared_statements = "+strconv.Itoa(b.cfg.MaxPreparedStatements))
	}
	return strings.Join(lines, "\n") + "\n"
}

// probe asks the console, which answers without the target, and makes sure that the answer is from our process.
func (b *PgBouncer) probe(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, b.url("pgbouncer"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, "SHOW DATABASES").ReadAll() // the simple protocol: the console has no other
	if err != nil {
		return err
	}
	for _, r := range results {
		for _, row := range r.Rows {
			if string(row[0]) == b.mark() {
				return nil
			}
		}
	}
	return errPortTaken
}

func (b *PgBouncer) url(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(b.target.User), Host: net.JoinHostPort(loopback, strconv.Itoa(b.port)),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// URL is the address of the target's database by way of the pooler. It holds no password.
func (b *PgBouncer) URL() string { return b.url(b.target.Database) }

// Port is the loopback port.
func (b *PgBouncer) Port() int { return b.port }

// PID is its process id, also after Close.
func (b *PgBouncer) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.proc.pid()
}

// Close stops the pooler at once, without waiting for clients. It may be called again.
func (b *PgBouncer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	var err error
	if b.proc != nil {
		if err = b.proc.stop(stopOthers); err != nil {
			err = fmt.Errorf("stop PgBouncer: %w", err)
		}
	}
	if b.guard != nil {
		b.guard.dismiss()
	}
	return errors.Join(err, b.place.close())
}
