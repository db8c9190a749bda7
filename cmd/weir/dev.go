package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore/migrate"
	"github.com/weirq/weir/pkg/run"
	"github.com/weirq/weir/pkg/worker"
)

// devDir is where weir dev keeps its data, in the current folder.
const devDir = ".weir"

var _ = add(devCommand)

// devCommand keeps everything up for somebody who writes a program with Weir.
func devCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "dev",
		Short: "Postgres, Redis, a sweeper and a worker, until Ctrl-C",
		Long: "Keep a private Postgres and Redis up, with a sweeper and a worker that knows the\n" +
			"demo's jobs (checksum, sleep, fail, echo), until Ctrl-C. The data stay\n" +
			"in ./" + devDir + " and are there again the next time. Settings of the\n" +
			"environment are not used.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilStopped(cmd.Context())
			defer stop()
			err := runDev(ctx, a)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // Ctrl-C while it was starting
			}
			return err
		},
	}
}

// runDev starts what is needed and runs the worker until ctx ends.
func runDev(ctx context.Context, a *app) (err error) {
	s := &screen{out: a.out}
	dir, err := makeDevDir()
	if err != nil {
		return err
	}
	s.say("weir dev: starting; data in ./%s", devDir)
	v := &servers{}
	defer func() {
		err = errors.Join(err, v.close())
		if ctx.Err() != nil && err == nil {
			s.say("stopped; the data are in ./%s", devDir)
		}
	}()
	if err := v.openDev(ctx, dir, s); err != nil {
		return err
	}
	loaded, err := config.Read(config.Sources{Environ: v.environ})
	if err != nil {
		return configError{err}
	}
	log := run.NewLogger(a.err, loaded.Config.Log)
	c, closeAll, err := run.Open(loaded.Config, run.Options{Name: "weir dev", Logger: log})
	if err != nil {
		return err
	}
	defer closeAll()
	if _, err := migrate.Up(ctx, c.Pool(), migrate.Config{Schema: loaded.Config.Namespace}); err != nil {
		return err
	}
	w, err := newDevWorker(c, log)
	if err != nil {
		return err
	}
	if err := tellDev(ctx, v, s, &account{client: c}); err != nil {
		return err
	}
	return w.Run(ctx)
}

// makeDevDir makes the folder of the data, closed to other users.
func makeDevDir() (string, error) {
	dir, err := filepath.Abs(devDir)
	if err != nil {
		return "", fmt.Errorf("find ./%s: %w", devDir, err)
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		// Postgres does not run as root but as another user, who must get through to its data. Nobody can list the folder,
		// and the data below it are closed to all but that user.
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", fmt.Errorf("make ./%s: %w", devDir, err)
	}
	if err := os.Chmod(dir, mode); err != nil { // whatever the umask, and whoever made it
		return "", fmt.Errorf("make ./%s: %w", devDir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o644); err != nil {
		return "", fmt.Errorf("keep ./%s out of git: %w", devDir, err)
	}
	return dir, nil
}

// openDev starts both servers, on the ports that they had the last time if these are free: what was pasted in another
// shell then goes on to be right.
func (v *servers) openDev(ctx context.Context, dir string, s *screen) error {
	ports := readPorts(filepath.Join(dir, "ports"))
	if ports[0] != 0 && ifFree(ports[0]) == 0 {
		s.say("  port %d is in use: waiting in case a former weir dev is about to end", ports[0])
	}
	cfg := embedded.PostgresConfig{Dir: filepath.Join(dir, "postgres"), Port: ifFree(ports[0])}
	if err := v.startPostgres(ctx, cfg, s); err != nil {
		if os.Geteuid() == 0 && strings.Contains(err.Error(), "may not enter") {
			return fmt.Errorf("%w\n-> run it in a folder that everybody may enter, or not as root", err)
		}
		return err
	}
	redis, err := embedded.StartRedis(ctx, embedded.RedisConfig{Port: ifFree(ports[1])})
	if err != nil {
		return err
	}
	v.redis = redis
	v.environ = append(v.environ, "WEIR_REDIS_URL="+redis.URL())
	text := fmt.Sprintf("%d %d\n", v.postgres.Port(), redis.Port())
	if err := os.WriteFile(filepath.Join(dir, "ports"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("keep the ports: %w", err)
	}
	return nil
}

// readPorts returns the ports of the last time, 0 for one that is not known.
func readPorts(path string) (ports [2]int) {
	text, err := os.ReadFile(path)
	if err != nil {
		return ports
	}
	for i, word := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(word); err == nil && i < len(ports) && n > 0 && n < 1<<16 {
			ports[i] = n
		}
	}
	return ports
}

// ifFree returns port if nothing listens on it, else 0.
func ifFree(port int) int {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0
	}
	_ = l.Close()
	return port
}

func newDevWorker(c *client.Client, log *slog.Logger) (*worker.Worker, error) {
	w, err := worker.New(c, worker.Config{
		Queues: []worker.Queue{{Name: job.DefaultQueue, Slots: 20}}, Sweep: true, Grace: 5 * time.Second, Logger: log,
		OnFinish: func(_ context.Context, row job.Row, err error, next worker.Next) {
			if err != nil {
				log.Warn("job "+string(next.State), "job", row.ID, "kind", row.Kind, "attempt", row.Attempt, "error", err)
				return
			}
			log.Info("job "+string(next.State), "job", row.ID, "kind", row.Kind)
		},
	})
	if err != nil {
		return nil, err
	}
	return w, demojobs.Register(w, "")
}

// tellDev says what runs and how to use it.
func tellDev(ctx context.Context, v *servers, s *screen, a *account) error {
	version, fsync, err := a.server(ctx)
	if err != nil {
		return err
	}
	s.say("")
	v.tell(s, version, fsync)
	s.say("  worker    20 slots for queue default: checksum, sleep, fail, echo; sweeper")
	s.say("")
	s.say("  in another shell")
	v.tellEnvironment(s, a.client.Namespace())
	s.say("    %s enqueue sleep '{\"ms\": 500}'", ownName())
	s.say("    %s jobs list", ownName())
	s.say("")
	s.say("  Ctrl-C ends it; the data stay in ./%s", devDir)
	return nil
}
