package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// startBound is how long a server may take to answer, recovery after a crash included.
const startBound = 60 * time.Second

// minFree is the space below which no Postgres is started: a fresh one takes 40 MB and its log another 80 MB soon.
const minFree = 200 << 20

// PostgresConfig says where and how a private Postgres runs. Its zero value is good for a throw-away server.
type PostgresConfig struct {
	// Dir is the data directory. It is created if need be and kept at Close; its server's messages go to weir.log in
	// it. Empty means a temporary directory that is removed at Close.
	Dir string
	// Port is the loopback port to listen on. Zero means a random free one.
	Port int
	// Settings are server settings by their names in postgresql.conf. Those not named have Postgres' defaults, except
	// max_connections = 200. fsync stays on unless turned off here.
	Settings map[string]string
	// Log gets what the server writes. Nil means its log file alone.
	Log io.Writer
}

// Postgres is a private server. Its methods may be called from several goroutines.
type Postgres struct {
	cfg     PostgresConfig
	bins    binaries
	as      *account // nil: ourselves
	place   place
	guard   *watchdog
	version string
	port    int

	mu     sync.Mutex
	proc   *process // the last one started; may be dead
	closed bool
}

// StartPostgres starts a private Postgres and returns when it answers, about a second later. ctx bounds the start only;
// a minute does so too. It wants 200 MB of free space. When there are no binaries of Postgres 14 or later on PATH or in
// the usual places, it fetches some, which needs a network.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	if !supported {
		return nil, errors.New("a private Postgres cannot be started on this system: set WEIR_POSTGRES_URL")
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	as, err := unprivileged()
	if err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	cfg.Settings = maps.Clone(cfg.Settings)
	p := &Postgres{cfg: cfg, as: as}
	if p.place, err = makePlace("weir-postgres-*", cfg.Dir, as); err != nil {
		return nil, fmt.Errorf("start Postgres: %w", err)
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Postgres: %w", err), p.Close())
	}
	return p, nil
}

// start does what can fail once the place is made; the caller closes p on an error.
func (p *Postgres) start(ctx context.Context) error {
	free, err := freeBytes(p.place.base)
	if err != nil {
		return err
	}
	if free < minFree {
		return fmt.Errorf("%d MB are free in %s, %d MB are needed", free>>20, p.place.base, minFree>>20)
	}
	signals := []string{"INT", "QUIT", "KILL"}
	if p.place.temp != "" {
		signals = signals[1:] // no checkpoint for data that are removed next
	}
	if p.guard, err = startWatchdog(p.place.temp, signals...); err != nil {
		return err
	}
	if err := p.pickBinaries(ctx); err != nil {
		return err
	}
	if err := p.initialise(ctx); err != nil {
		return err
	}
	if err := p.place.openLog(); err != nil {
		return err
	}
	if err := p.as.own(p.place.log.Name()); err != nil { // pg_basebackup reads all files of the directory
		return err
	}
	return withPort(p.cfg.Port, func(port int) error {
		p.port = port
		return p.launch(ctx)
	})
}

// pickBinaries finds binaries that fit the data, or any for a new directory, or fetches some.
func (p *Postgres) pickBinaries(ctx context.Context) error {
	major := 0
	if text, err := os.ReadFile(filepath.Join(p.place.data, "PG_VERSION")); err == nil {
		if major, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return fmt.Errorf("read PG_VERSION in %s: %w", p.place.data, err)
		}
	}
	var err error
	if p.bins, err = findPostgres(major, p.as); err == nil {
		return nil
	}
	if major == 0 || major == fetchedMajor {
		var fetchErr error
		if p.bins, fetchErr = fetchPostgres(ctx, p.as, p.cfg.Log); fetchErr == nil {
			return nil
		}
		return fmt.Errorf("%w; %w", err, fetchErr)
	}
	return err
}

// launch starts the server on p.port and waits until it answers. The caller holds mu or is the only one to know p.
func (p *Postgres) launch(ctx context.Context) error {
	if err := p.clearLock(ctx); err != nil {
		return err
	}
	proc, err := launch(command{
		path: filepath.Join(p.bins.dir, "postgres"), args: p.args(),
		dir: p.place.data, as: p.as, log: p.place.log, copy: p.cfg.Log,
	}, p.guard)
	if err != nil {
		return err
	}
	p.proc = proc
	if err := proc.await(ctx, "wait for Postgres", p.probe); err != nil {
		return errors.Join(err, proc.kill())
	}
	return nil
}

func (p *Postgres) args() []string {
	settings := map[string]string{"max_connections": "200"}
	maps.Copy(settings, p.cfg.Settings)
	maps.Copy(settings, map[string]string{
		"listen_addresses":        loopback,
		"port":                    strconv.Itoa(p.port),
		"unix_socket_directories": "", // a path in a temporary directory may be too long for a socket
		"logging_collector":       "off",
	})
	args := []string{"-D", p.place.data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// probe connects once. It makes sure that the answer is from our server: the port may have been taken by another, to
// which any query would succeed.
func (p *Postgres) probe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var version, dir string
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('data_directory')`).
		Scan(&version, &dir)
	if err != nil {
		return err
	}
	if dir != p.place.data {
		return errPortTaken
	}
	if p.version == "" { // written once: Version reads without a lock
		p.version, _, _ = strings.Cut(version, " ")
	}
	return nil
}

// URL is the address of the database postgres, as the superuser postgres.
func (p *Postgres) URL() string {
	return "postgres://postgres@" + net.JoinHostPort(loopback, strconv.Itoa(p.port)) + "/postgres?sslmode=disable"
}

// Port is the loopback port. It stays the same through Restart.
func (p *Postgres) Port() int { return p.port }

// BinDir is the directory of the binaries.
func (p *Postgres) BinDir() string { return p.bins.dir }

// Version is the server's version without the packager's words, such as "15.8".
func (p *Postgres) Version() string { return p.version }

// PID is the process id of the postmaster, the last one after Kill or Close.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc.pid()
}

// Close stops the server: a fast shutdown, after 10 s an immediate one, after 7 s more SIGKILL. It returns when no process
// is left and a temporary directory is removed. It may be called again.
func (p *Postgres) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if p.proc != nil {
		if err = p.proc.stop(stopPostgres); err != nil {
			err = fmt.Errorf("stop Postgres: %w", err)
		}
	}
	if p.guard != nil {
		p.guard.dismiss()
	}
	return errors.Join(err, p.place.close())
}
