package weirtest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/worker"
)

// maxListed is how many jobs are looked at, and shownJobs how many a failure names.
const (
	maxListed = 1000
	shownJobs = 20
)

// Option says what a job must be like, and where it lies.
type Option func(*options)

type options struct {
	namespace string
	queue     string
	count     int
}

// Namespace is the schema. Without it "weir".
func Namespace(name string) Option { return func(o *options) { o.namespace = name } }

// OnQueue counts the jobs of that queue alone. Without it those of all queues.
func OnQueue(name string) Option { return func(o *options) { o.queue = name } }

// Count is how many jobs there must be. Without it one.
func Count(n int) Option { return func(o *options) { o.count = n } }

// querier is a pgx.Tx, *pgx.Conn or *pgxpool.Pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// sqlQuerier is a *sql.Tx, *sql.DB, *sql.Conn, and what fits client.SQLTx.
type sqlQuerier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// RequireEnqueued fails the test at once unless db sees exactly one job of T's kind, whatever has become of it, and
// returns that. db is a pgx.Tx, *pgxpool.Pool or *pgx.Conn, or whatever EnqueueSQLTx takes: a *sql.Tx, *sql.DB or a
// wrapper of one; or a *Recorder. With Count(n) there must be n, and the oldest is returned; with Count(0) the result is nil.
func RequireEnqueued[T job.Args](t testing.TB, db any, opts ...Option) *worker.Job[T] {
	t.Helper()
	o := options{namespace: "weir", count: 1}
	for _, set := range opts {
		set(&o)
	}
	var zero T
	kind := zero.Kind()
	rows, err := list(t.Context(), db, o.namespace)
	if err != nil {
		t.Fatalf("weirtest: look for jobs of kind %s: %v", kind, err)
		return nil
	}
	var found []job.Row
	for _, row := range rows {
		if row.Kind == kind && (o.queue == "" || row.Queue == o.queue) {
			found = append(found, row)
		}
	}
	if len(found) != o.count {
		t.Fatalf("weirtest: %d jobs of %s are enqueued, want %d; %s", len(found), o.subject(kind), o.count, describe(rows))
		return nil
	}
	if len(found) == 0 {
		return nil
	}
	j := &worker.Job[T]{Row: found[0]}
	if err := json.Unmarshal(j.Payload, &j.Args); err != nil {
		t.Fatalf("weirtest: decode the payload of job %s into %T: %v", j.ID, zero, err)
	}
	return j
}

func (o *options) subject(kind string) string {
	if o.queue == "" {
		return "kind " + kind
	}
	return fmt.Sprintf("kind %s in queue %s", kind, o.queue)
}

// list returns the newest jobs that db sees, oldest first.
func list(ctx context.Context, db any, namespace string) ([]job.Row, error) {
	if r, ok := db.(*Recorder); ok {
		return r.Jobs(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	query, args := pgstore.New(nil, pgstore.Config{Schema: namespace}).ListSQL("", "", maxListed)
	var text string
	switch db := db.(type) {
	case querier:
		// The simple protocol: nothing is prepared on a connection that is not ours.
		args = append([]any{pgx.QueryExecModeSimpleProtocol}, args...)
		if err := db.QueryRow(ctx, query, args...).Scan(&text); err != nil {
			return nil, err
		}
	case sqlQuerier:
		if err := scanOne(ctx, db, query, args, &text); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("a %T is neither of pgx nor of database/sql", db)
	}
	return pgstore.ScanList(text)
}

func scanOne(ctx context.Context, db sqlQuerier, query string, args []any, into *string) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(rows.Err(), errors.New("the server returned no row"))
	}
	if err := rows.Scan(into); err != nil {
		return err
	}
	return rows.Close()
}

// describe lists what is there, for a failure.
func describe(rows []job.Row) string {
	if len(rows) == 0 {
		return "there are no jobs at all"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "there are %d jobs", len(rows))
	if len(rows) > shownJobs {
		fmt.Fprintf(&b, ", the newest %d of them", shownJobs)
		rows = rows[len(rows)-shownJobs:]
	}
	b.WriteString(":")
	for _, r := range rows {
		payload := string(r.Payload)
		if len(payload) > 120 {
			payload = strings.ToValidUTF8(payload[:120], "") + "…"
		}
		fmt.Fprintf(&b, "\n  %s  %s  queue %s  %s  %s", r.ID, r.Kind, r.Queue, r.State, payload)
	}
	return b.String()
}
