package migrate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

func TestTheFirstPartitionsHoldThePresentAndWhatIsAhead(t *testing.T) {
	t.Parallel()
	for w := pgstore.Day; w.Valid(); w++ {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			// Far from UTC, and dates written otherwise: names and bounds must not follow the session.
			abroad := open(t, testenv.Postgres(t), func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["timezone"] = "Pacific/Auckland"
				c.ConnConfig.RuntimeParams["datestyle"] = "German, DMY"
			})
			pool := utc(t)
			cfg := migrate.Config{Schema: testenv.Namespace(t), Partitions: w, Ahead: 3}
			before := dbNow(t, pool)
			up(t, abroad, cfg)
			after := dbNow(t, pool)
			got := partitions(t, pool, cfg.Schema)
			// Two answers are right when a partition began meanwhile.
			if want := expected(w, before, 4); !slices.Equal(got, want) && !slices.Equal(got, expected(w, after, 4)) {
				t.Errorf("got %q,\nwant %q", got, want)
			}
		})
	}
}

func TestAheadIsByWidthUnlessSaid(t *testing.T) {
	t.Parallel()
	pool := utc(t)
	for w := pgstore.Day; w.Valid(); w++ {
		cfg := migrate.Config{Schema: testenv.Namespace(t), Partitions: w}
		up(t, pool, cfg)
		if got, want := len(partitions(t, pool, cfg.Schema)), 4*(1+w.Ahead()); got != want {
			t.Errorf("%s: got %d partitions, want %d", w, got, want)
		}
	}
}

func TestWhatIsWrittenNowMeetsNoDefaultPartition(t *testing.T) {
	t.Parallel()
	pool := utc(t)
	cfg := migrate.Config{Schema: testenv.Namespace(t), Partitions: pgstore.Minute}
	up(t, pool, cfg)
	for _, insert := range []string{
		`.jobs (id, enqueued_at, max_attempts, priority, kind, queue, payload)
		 VALUES (` + cfg.Schema + `.new_id(), now(), 1, 5, 'k', 'q', '{}')`,
		`.attempts (ended_at, started_at, attempt, fence, job_id, outcome)
		 VALUES (clock_timestamp() + interval '10 min', now(), 1, 1, gen_random_uuid(), 'failed')`,
	} {
		insert = `INSERT INTO ` + cfg.Schema + insert + ` RETURNING tableoid::regclass::text`
		name := value(t, pool, insert)
		_, from, to, ok := pgstore.ParsePartition(name[len(cfg.Schema)+1:])
		if !ok || to.Sub(from) != time.Minute {
			t.Errorf("written to %s", name)
		}
	}
}

func utc(t *testing.T) *pgxpool.Pool {
	return open(t, testenv.Postgres(t), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["timezone"] = "UTC"
		c.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	})
}

func dbNow(t *testing.T, pool *pgxpool.Pool) (now time.Time) {
	t.Helper()
	if err := pool.QueryRow(bounded(t), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now
}

// partitions lists a schema's partitions but the default ones, with their bounds, by name.
func partitions(t *testing.T, pool *pgxpool.Pool, schema string) []string {
	t.Helper()
	list := column(t, pool, `SELECT relname || ' ' || pg_get_expr(relpartbound, oid) FROM pg_class
		WHERE relnamespace = $1::regnamespace AND relispartition AND relkind = 'r' AND relname !~ '_default$'`, schema)
	slices.Sort(list)
	return list
}

// expected is what partitions should list: n of each parent, the first of them holding now.
func expected(w pgstore.Width, now time.Time, n int) []string {
	var list []string
	for i := range n {
		from := pgstore.Floor(w, now).Add(time.Duration(i) * w.Duration())
		to := from.Add(w.Duration())
		list = append(list, fmt.Sprintf("%s FOR VALUES FROM ('%s') TO ('%s')",
			pgstore.PartitionName("jobs", w, from), leastID(from), leastID(to)))
		for _, parent := range []string{"outcomes", "dead", "attempts"} {
			const layout = "2006-01-02 15:04:05+00"
			list = append(list, fmt.Sprintf("%s FOR VALUES FROM ('%s') TO ('%s')",
				pgstore.PartitionName(parent, w, from), from.Format(layout), to.Format(layout)))
		}
	}
	slices.Sort(list)
	return list
}

func leastID(t time.Time) string {
	ms := fmt.Sprintf("%012x", t.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-0000-0000-000000000000"
}
