package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The kinds of Redis that StartRedis can start.
const (
	KindRedisServer = "redis-server"
	KindMiniredis   = "miniredis"
)

// RedisConfig says how a private Redis runs. Its zero value is good.
type RedisConfig struct {
	// Kind is KindRedisServer or KindMiniredis. Empty means the first if its program is on PATH, else the second.
	Kind string
	// Port is the loopback port to listen on. Zero means a random free one.
	Port int
	// Settings are directives by their names in redis.conf, such as "maxmemory". miniredis has none.
	Settings map[string]string
	// Log gets what redis-server writes. Nil means nobody.
	Log io.Writer
}

// Redis is a private server that keeps nothing on disk. Its methods may be called from several goroutines.
type Redis struct {
	cfg     RedisConfig
	bin     string // empty: miniredis
	place   place
	guard   *watchdog
	version string
	port    int

	mu     sync.Mutex
	proc   *process // the last one started; nil with miniredis
	mini   *mini    // nil with redis-server
	closed bool
}

// StartRedis starts a private Redis, empty, and returns when it answers. ctx bounds the start only. An error wraps
// ErrNoBinary when redis-server was asked for and is not there.
func StartRedis(ctx context.Context, cfg RedisConfig) (*Redis, error) {
	cfg.Settings = maps.Clone(cfg.Settings)
	r := &Redis{cfg: cfg}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if r.bin == "" {
		if err := r.startMini(); err != nil {
			return nil, err
		}
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Redis: %w", err), r.Close())
	}
	return r, nil
}

// choose sets bin when redis-server is to be run.
func (r *Redis) choose() error {
	kind := r.cfg.Kind
	if kind != "" && kind != KindRedisServer && kind != KindMiniredis {
		return fmt.Errorf("start Redis: unknown kind %q", kind)
	}
	if kind == KindMiniredis || (!supported && kind == "") {
		return nil
	}
	bin, err := exec.LookPath("redis-server")
	if err == nil && supported {
		r.bin, err = filepath.Abs(bin)
		return err
	}
	if kind == "" {
		return nil
	}
	return fmt.Errorf("start Redis: %w: redis-server, looked in $PATH", ErrNoBinary)
}

func (r *Redis) start(ctx context.Context) error {
	var err error
	if r.place, err = makePlace("weir-redis-*", "", nil); err != nil {
		return err
	}
	r.place.data = r.place.temp
	if err := r.place.openLog(); err != nil {
		return err
	}
	if r.guard, err = startWatchdog(r.place.temp, "TERM", "KILL"); err != nil {
		return err
	}
	return withPort(r.cfg.Port, func(port int) error {
		r.port = port
		return r.launch(ctx)
	})
}

// launch starts redis-server on r.port. The caller holds mu or is the only one to know r.
func (r *Redis) launch(ctx context.Context) error {
	settings := map[string]string{"databases": "16"}
	maps.Copy(settings, r.cfg.Settings)
	maps.Copy(settings, map[string]string{
		"bind": loopback, "port": strconv.Itoa(r.port), "dir": r.place.data, "daemonize": "no", "save": "",
		"appendonly": "no",
	})
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "--"+name, settings[name])
	}
	proc, err := launch(command{
		path: r.bin, args: args, dir: r.place.data, log: r.place.log, copy: r.cfg.Log,
	}, r.guard)
	if err != nil {
		return err
	}
	r.proc = proc
	if err := proc.await(ctx, "wait for Redis", r.probe); err != nil {
		return errors.Join(err, proc.kill())
	}
	return nil
}

// probe asks for INFO and makes sure that the answer is from our process. It speaks the protocol itself, since a
// client logs each refused connection.
func (r *Redis) probe(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(conn, "INFO server\r\n"); err != nil {
		return err
	}
	info := map[string]string{}
	lines := bufio.NewScanner(conn)
	for info["redis_version"] == "" || info["process_id"] == "" {
		if !lines.Scan() {
			return errors.Join(errors.New("ask Redis for its version: answer is cut short"), lines.Err())
		}
		name, value, ok := strings.Cut(lines.Text(), ":")
		if !ok && strings.HasPrefix(name, "-") {
			return fmt.Errorf("ask Redis for its version: %s", name)
		}
		info[name] = value
	}
	if info["process_id"] != strconv.Itoa(r.proc.pid()) {
		return errPortTaken
	}
	if r.version == "" { // written once: Version reads without a lock
		r.version = info["redis_version"]
	}
	return nil
}

func (r *Redis) addr() string { return net.JoinHostPort(loopback, strconv.Itoa(r.port)) }

// URL is the server's address, database 0.
func (r *Redis) URL() string { return "redis://" + r.addr() + "/0" }

// Port is the loopback port. It stays the same through Restart.
func (r *Redis) Port() int { return r.port }

// Kind is KindRedisServer or KindMiniredis.
func (r *Redis) Kind() string {
	if r.bin == "" {
		return KindMiniredis
	}
	return KindRedisServer
}

// BinPath is the program that runs; empty for miniredis.
func (r *Redis) BinPath() string { return r.bin }

// Version is the server's version, such as "7.0.15"; empty for miniredis.
func (r *Redis) Version() string { return r.version }

// PID is the server's process id, the last one after Kill or Close; for miniredis our own.
func (r *Redis) PID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return os.Getpid()
	}
	return r.proc.pid()
}

// Close stops the server and returns when it is gone; after 3 s it is killed. It may be called again.
func (r *Redis) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.mini != nil {
		r.mini.close()
		return nil
	}
	var err error
	if r.proc != nil {
		if err = r.proc.stop(stopOthers); err != nil {
			err = fmt.Errorf("stop Redis: %w", err)
		}
	}
	if r.guard != nil {
		r.guard.dismiss()
	}
	return errors.Join(err, r.place.close())
}

// Kill ends the server with SIGKILL; miniredis closes its port and all connections. It may be called again.
func (r *Redis) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	if r.mini != nil {
		r.mini.close()
		return nil
	}
	if err := r.proc.kill(); err != nil {
		return fmt.Errorf("kill Redis: %w", err)
	}
	return nil
}

// Pause stops the server with SIGSTOP: connections stay open and nothing answers. miniredis is part of our own process
// and returns errors.ErrUnsupported.
func (r *Redis) Pause() error { return r.withProcess((*process).pause) }

// Resume lets a paused server go on.
func (r *Redis) Resume() error { return r.withProcess((*process).resume) }

func (r *Redis) withProcess(do func(*process) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	if r.mini != nil {
		return fmt.Errorf("pause miniredis: %w", errors.ErrUnsupported)
	}
	return do(r.proc)
}

// Restart stops the server if it runs and starts it again on the same port, empty.
func (r *Redis) Restart(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	if r.mini != nil {
		r.mini.close()
		return r.startMini()
	}
	if err := r.proc.stop(stopOthers); err != nil {
		return fmt.Errorf("restart Redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := r.launch(ctx); err != nil {
		return fmt.Errorf("restart Redis: %w", err)
	}
	return nil
}
