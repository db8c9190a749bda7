package pgstore_test

import (
	"flag"
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore"
)

// A longer run: go test ./pkg/pgstore -run WAL -waljobs 1000000
var walJobs = flag.Int("waljobs", 20_000, "jobs in the test of what a job writes to the WAL")

const (
	walBatch = 1000
	walLimit = 1126 // bytes of WAL a job, for its whole life: 1.1 KB
)

// TestAJobsLifeWritesLittleWAL measures on a server of its own, from a checkpoint on, so that the first change of each
// page writes all of it. What autovacuum adds is not in the figure.
func TestAJobsLifeWritesLittleWAL(t *testing.T) {
	t.Parallel()
	server := testenv.PrivatePostgres(t, "full_page_writes", "on", "autovacuum", "off", "max_wal_size", "8GB", "checkpoint_timeout", "1h")
	pool, schema := testenv.SchemaOn(t, server.URL())
	b := benchOn(t, pool, schema)
	s := b.session()
	b.lifeOf(t, s, walBatch) // the first batch makes the tables' first pages
	b.exec("CHECKPOINT")
	var sum [3]int
	for range *walJobs / walBatch {
		for i, n := range b.lifeOf(t, s, walBatch) {
			sum[i] += n
		}
	}
	total := (sum[0] + sum[1] + sum[2]) / *walJobs
	t.Logf("bytes of WAL a job: enqueue %d, claim %d, finish %d, together %d", sum[0] / *walJobs, sum[1] / *walJobs, sum[2] / *walJobs, total)
	if total > walLimit {
		t.Errorf("a job writes %d bytes of WAL, want at most %d", total, walLimit)
	}
}

// lifeOf takes n jobs with a small payload through their lives and returns what each step wrote.
func (b *bench) lifeOf(t *testing.T, session [16]byte, n int) (wrote [3]int) {
	t.Helper()
	at := b.walAt()
	step := func(i int) {
		now := b.walAt()
		wrote[i], at = now-at, now
	}
	b.enqueue(n, func(j *pgstore.NewJob) { j.Payload = []byte(`{"user_id":12345678,"locale":"en_GB","again":false}`) })
	step(0)
	rows := b.claim(session, n)
	step(1)
	done, err := b.store.Finish(b.ctx, session, completionsOf(rows...))
	if err != nil || len(done) != n {
		t.Fatalf("finish: %d, %v", len(done), err)
	}
	step(2)
	return wrote
}

// walAt returns how many bytes of WAL the server has written since it was made.
func (b *bench) walAt() (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&n); err != nil {
		b.t.Fatalf("%v", err)
	}
	return n
}
