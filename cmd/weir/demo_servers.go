package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/weirq/weir/internal/embedded"
)

// servers are the Postgres and the Redis that the environment names, or private ones.
type servers struct {
	postgres *embedded.Postgres // nil: the caller's
	redis    *embedded.Redis    // nil: the caller's
	environ  []string           // the WEIR_ variables that lead to them
}

// open takes what environ names and starts the rest. What it has started is v's also when it returns an error.
func (v *servers) open(ctx context.Context, environ []string, s *screen) (err error) {
	if isSet(environ, "WEIR_POSTGRES_URL") {
		v.environ = append(v.environ, withPrefix(environ, "WEIR_POSTGRES_")...)
	} else {
		if runtime.GOOS == "windows" {
			return errors.New("demo needs WEIR_POSTGRES_URL on Windows")
		}
		if err := v.startPostgres(ctx, embedded.PostgresConfig{}, s); err != nil {
			return err
		}
	}
	if isSet(environ, "WEIR_REDIS_URL") {
		v.environ = append(v.environ, withPrefix(environ, "WEIR_REDIS_")...)
		return nil
	}
	return v.startRedis(ctx)
}

func (v *servers) startPostgres(ctx context.Context, cfg embedded.PostgresConfig, s *screen) (err error) {
	cfg.Log = &fetchLines{screen: s}
	if v.postgres, err = embedded.StartPostgres(ctx, cfg); err != nil {
		return err
	}
	v.environ = append(v.environ, "WEIR_POSTGRES_URL="+v.postgres.URL())
	return nil
}

func (v *servers) startRedis(ctx context.Context) (err error) {
	if v.redis, err = embedded.StartRedis(ctx, embedded.RedisConfig{}); err != nil {
		return err
	}
	v.environ = append(v.environ, "WEIR_REDIS_URL="+v.redis.URL())
	return nil
}

// close stops what was started.
func (v *servers) close() error {
	var errs []error
	if v.redis != nil {
		errs = append(errs, v.redis.Close())
	}
	if v.postgres != nil {
		errs = append(errs, v.postgres.Close())
	}
	return errors.Join(errs...)
}

// tell says what runs where; version and fsync are what the Postgres says of itself.
func (v *servers) tell(s *screen, version, fsync string) {
	const form = "  %-8s  %-6s %-34s %s"
	if v.postgres != nil {
		s.say(form, "postgres", version, fmt.Sprintf("private, port %d, fsync %s", v.postgres.Port(), fsync), v.postgres.BinDir())
	} else {
		s.say(form, "postgres", version, "yours, fsync "+fsync, "WEIR_POSTGRES_URL")
	}
	switch {
	case v.redis == nil:
		s.say(form, "redis", "", "yours", "WEIR_REDIS_URL")
	case v.redis.BinPath() == "":
		s.say(form, "redis", "mini", fmt.Sprintf("in this process, port %d", v.redis.Port()), "no redis-server in PATH")
	default:
		s.say(form, "redis", v.redis.Version(), fmt.Sprintf("private, port %d", v.redis.Port()), v.redis.BinPath())
	}
}

// tellEnvironment says what to paste in another shell. Private servers trust this machine's users, so their addresses
// are no secret; the caller's own are not repeated.
func (v *servers) tellEnvironment(s *screen, namespace string) {
	if v.postgres != nil {
		// Short, for a line of 80 columns: the user's name is the database's, and TLS is tried and not insisted on.
		s.say("    export WEIR_POSTGRES_URL=postgres://postgres@127.0.0.1:%d/postgres", v.postgres.Port())
	} else {
		s.say("    (WEIR_POSTGRES_URL as it is)")
	}
	if v.redis != nil {
		s.say("    export WEIR_REDIS_URL=%s", v.redis.URL())
	}
	if namespace != "weir" {
		s.say("    export WEIR_NAMESPACE=%s", namespace)
	}
}

// fetchLines passes on what is said about fetching binaries, which takes its time. The rest is the server's own log.
type fetchLines struct{ screen *screen }

func (l *fetchLines) Write(p []byte) (int, error) {
	if line := string(p); strings.HasPrefix(line, "fetching ") {
		l.screen.say("  %s", strings.TrimSpace(line))
	}
	return len(p), nil
}

var _ io.Writer = (*fetchLines)(nil)

// isSet reports whether a setting, or the file that it is in, has a value.
func isSet(environ []string, name string) bool {
	for _, line := range environ {
		key, value, _ := strings.Cut(line, "=")
		if value != "" && (key == name || key == name+"_FILE") {
			return true
		}
	}
	return false
}

// withPrefix returns the variables whose names begin with prefix.
func withPrefix(environ []string, prefix string) []string {
	var some []string
	for _, line := range environ {
		if strings.HasPrefix(line, prefix) {
			some = append(some, line)
		}
	}
	return some
}

// childEnviron is the environment of a child: ours without any settings of Weir, then own.
func childEnviron(own []string) []string {
	var all []string
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "WEIR_") {
			all = append(all, line)
		}
	}
	return append(all, own...)
}

// ownName is how this program was called, for lines to paste.
func ownName() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/weir" // its file is gone when it ends
	}
	return "weir"
}
