//go:build unix

package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// record is what a server has logged.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *record) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *record) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// lines returns those that hold what, each with the three that follow: Postgres tells there whose fault it is.
func (l *record) lines(what string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	all := strings.Split(l.text.String(), "\n")
	for i, line := range all {
		if strings.Contains(line, what) {
			out = append(out, all[i:min(i+4, len(all))]...)
		}
	}
	return strings.Join(out, "\n")
}

func startLogging(t *testing.T, log *record, settings map[string]string) *embedded.Postgres {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{Settings: settings, Log: log})
	must(t, err)
	t.Cleanup(func() { must(t, pg.Close()) })
	return pg
}

// loggingPostgres is a private server whose log the test reads.
func loggingPostgres(log *record, settings map[string]string) func(*rig) {
	return func(r *rig) { r.postgres = startLogging(r.t, log, settings) }
}

// pooled returns a rig all of which goes through a PgBouncer in transaction mode with few connections, each of which
// lives for a second; but the test's own pool, which looks at the server itself.
func pooled(t *testing.T) (r *rig, log *record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log = &record{}
	pg := startLogging(t, log, map[string]string{"log_line_prefix": "state=%e ", "fsync": "off"})
	b, err := embedded.StartPgBouncer(ctx, embedded.PgBouncerConfig{Target: pg.URL(), PoolSize: 8})
	if errors.Is(err, embedded.ErrNoBinary) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	shortLived(t, b.PID())

	r = &rig{t: t, dir: t.TempDir(), postgres: pg, url: b.URL(), redisURL: testenv.RedisURL(t), pooler: true}
	r.namespace = testenv.Namespace(t)
	r.pool = testenv.Pool(t, pg.URL())
	r.ledger, err = openLedger(r.dir, "test")
	must(t, err)
	t.Cleanup(func() { _ = r.ledger.file.Close() })
	through := r.poolThrough()
	if _, err := migrate.Up(ctx, through, migrate.Config{Schema: r.namespace, Ahead: 1}); err != nil {
		t.Fatal(err)
	}
	r.client = r.clientOn(through)
	return r, log
}

// shortLived makes a PgBouncer close each connection to the server once it is a second old: it adds the setting to the
// file that the process was started with, and has it read again.
func shortLived(t *testing.T, pid int) {
	t.Helper()
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	must(t, err)
	args := strings.Fields(string(out))
	f, err := os.OpenFile(args[len(args)-1], os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("server_lifetime = 1\n")
	must(t, errors.Join(err, f.Close(), syscall.Kill(pid, syscall.SIGHUP)))
}

func (r *rig) poolThrough() *pgxpool.Pool {
	r.t.Helper()
	cfg, err := pgxpool.ParseConfig(r.url)
	must(r.t, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // for what is not Weir's
	pool, err := pgxpool.NewWithConfig(r.t.Context(), cfg)
	must(r.t, err)
	r.t.Cleanup(pool.Close)
	return pool
}

// B77: the whole path behind a pooler that gives each transaction another connection, and throws those away after a
// second: migration, enqueue in every form, workers, retries, cancel, a sweeper and the recovery of a dead worker.
// Nothing of a session is relied upon, and nothing is left in one. Short: some seconds of load instead of ten minutes.
func TestEverythingWorksBehindAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	r, log := pooled(t)
	sw := r.sweeper("sweeper", func(s *spec) { s.Rotate = time.Second })
	victim := r.worker("victim", slots(10))
	gate, open := r.gate()
	r.enqueueMany(10, work{Gate: gate})
	r.awaitEvents(10*time.Second, 10, started, "victim")
	r.worker("one", slots(20))
	r.worker("two", slots(20))
	l := r.load(200, work{For: 5 * time.Millisecond})
	killed := time.Now()
	victim.kill()
	r.enqueueMany(1500, work{}) // several statements in one transaction
	for range 20 {
		r.enqueue(work{Do: doRetry, For: time.Second})
		must(t, r.client.InTx(t.Context(), func(tx pgx.Tx) error {
			e, err := r.client.EnqueueTx(t.Context(), tx, work{})
			r.ledger.note(event{What: acked, ID: e.ID})
			return err
		}))
	}
	cancelled := r.enqueue(work{For: time.Minute})
	r.starts([]job.ID{cancelled}, 1)
	must(t, r.client.Cancel(t.Context(), cancelled))
	must(t, r.client.Pause(t.Context(), client.Kind("other")))
	testenv.Eventually(t, 4*lease()+crowd(), func() bool { return r.count("SELECT count(*) FROM weir.attempts WHERE outcome = 'crashed'") == 10 },
		"the dead worker's jobs are not recovered")
	if took, most := time.Since(killed), recoverBound(sw); took > most+time.Second {
		t.Errorf("they were recovered after %v, at most %v", took, most)
	}
	open()
	pause(time.Until(killed.Add(pick(8*time.Second, 10*time.Minute))))
	l.stop()
	r.awaitEmpty(30 * time.Second)
	r.check(audit{starts: 2, attempts: 2, dead: 1})
	for code, meaning := range map[string]string{
		"42P05": "a prepared statement is there already", "26000": "a prepared statement is not there",
		"08P01": "the protocol was violated", "25P02": "a transaction had failed already", "40P01": "a deadlock",
	} {
		if n := log.count("state=" + code); n != 0 {
			t.Errorf("%d times: %s (%s)", n, meaning, code)
		}
	}
	if strings.Contains(r.logs(), "duty fails") {
		t.Error("a duty of the sweeper failed")
	}
	r.noSettingsLeak()
}

// noSettingsLeak looks at what other clients of the pooler get: a server connection that Weir has used.
func (r *rig) noSettingsLeak() {
	r.t.Helper()
	pool := r.poolThrough()
	for range 20 {
		for name, want := range map[string]string{
			"enable_seqscan": "on", "plan_cache_mode": "auto", "synchronous_commit": "on", "lock_timeout": "0",
			"idle_in_transaction_session_timeout": "0", "statement_timeout": "0",
		} {
			var got string
			must(r.t, pool.QueryRow(r.t.Context(), "SELECT current_setting($1)", name).Scan(&got))
			if got != want {
				r.t.Fatalf("%s is %s on a connection of the pooler, want %s", name, got, want)
			}
		}
	}
}
