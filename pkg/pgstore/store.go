package pgstore

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Querier is what a statement needs: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config says how to speak to the database.
type Config struct {
	// Schema holds Weir's tables. Zero means "weir".
	Schema string
	// Pooler says that a transaction-pooling PgBouncer is between: no named prepared statements are used.
	Pooler bool
	// Timeout bounds each statement. Zero means 10 s. When it passes, the connection is closed and what the
	// statement did is unknown.
	Timeout time.Duration
}

// Store runs Weir's statements on one schema. It holds no connection: each call takes one from db and gives it back.
type Store struct {
	db      Querier
	schema  string
	mode    pgx.QueryExecMode
	timeout time.Duration
	sql     map[string]string
}

// New returns a Store on db. It does no I/O.
func New(db Querier, cfg Config) *Store {
	s := &Store{db: db, schema: cfg.Schema, mode: pgx.QueryExecModeCacheStatement, timeout: cfg.Timeout}
	if s.schema == "" {
		s.schema = "weir"
	}
	if s.timeout == 0 {
		s.timeout = 10 * time.Second
	}
	if cfg.Pooler {
		// Parse, bind and execute travel together, unnamed: nothing is left on the server connection.
		s.mode = pgx.QueryExecModeCacheDescribe
	}
	s.sql = make(map[string]string, len(statements))
	for name, text := range statements {
		s.sql[name] = qualify(text, s.schema)
	}
	return s
}

// On returns the same store on another connection or transaction.
func (s *Store) On(db Querier) *Store {
	c := *s
	c.db = db
	return &c
}

// Schema returns the schema's name.
func (s *Store) Schema() string { return s.schema }

// Timeout returns the bound of a statement.
func (s *Store) Timeout() time.Duration { return s.timeout }

func (s *Store) query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.db.Query(ctx, sql, append([]any{s.modeOf(sql)}, args...)...)
}

func (s *Store) row(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.db.QueryRow(ctx, sql, append([]any{s.modeOf(sql)}, args...)...)
}

func (s *Store) exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return s.db.Exec(ctx, sql, append([]any{s.modeOf(sql)}, args...)...)
}

// modeOf returns how a statement is sent. A function of the schema pins the plans in it: its call may be prepared. A
// plain statement, which begins with the header of its file, pins nothing: prepared while the tables were empty it would
// keep a plan of sequential scans, so it is sent unnamed and planned anew each time.
func (s *Store) modeOf(sql string) pgx.QueryExecMode {
	if strings.HasPrefix(sql, "--") {
		return pgx.QueryExecModeCacheDescribe
	}
	return s.mode
}

// bound gives a statement its limit of time.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// params are the placeholders of a call; it is cut to as many as a function has.
const params = "$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24"

// call returns the text that calls a function of the schema with n arguments, at most 24.
func (s *Store) call(function string, columns string, n int) string {
	end := 3*n - 1
	if n > 9 {
		end += n - 9
	}
	return "SELECT " + columns + ` FROM "` + s.schema + `".` + function + "(" + params[:max(end, 0)] + ")"
}

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("read the database clock: %w", Classify(err))
	}
	return now, nil
}

//go:embed sql/*.sql
var files embed.FS

var statements = readStatements()

func readStatements() map[string]string {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err)
	}
	m := make(map[string]string, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		m[strings.TrimSuffix(strings.TrimPrefix(name, "sql/"), ".sql")] = string(text)
	}
	return m
}

var schemaPrefix = regexp.MustCompile(`\bweir\.`)

// qualify puts the schema's name in the place of "weir." in a statement. The name is quoted: it may be a reserved word.
func qualify(text, schema string) string {
	return schemaPrefix.ReplaceAllString(text, `"`+schema+`".`)
}

// keyedRows finds what new_rows says otherwise for jobs with keys.
var keyedRows = regexp.MustCompile(`\S+ /\*: (.*?) \*/`)

// Install returns the statements that make version 1 of a schema, in order; package migrate runs them.
func Install(schema string) []string {
	order := []string{
		"schema", "keyed", "limit_of", "rates_of", "gate", "runnable", "ahead", "heads", "lock_keys", "better_due", "taken",
		"queue_room", "queue_granted", "moved", "take_here", "unblock", "block_line", "admit", "pass", "handover", "tidy_reservations",
		"tidy_orphans", "idle_keys", "ulid", "id_floor", "new_id", "log_row", "kept_ids", "enqueue", "enqueue_one", "add_failure",
		"enqueue_json", "enqueue_unique", "alone", "turn", "claim", "finish",
		"retry", "bury", "release", "renew", "recover", "expire", "cancel", "revive", "delete", "change", "pause", "outcome",
		"add_partition", "job_status", "served", "due", "stragglers", "counts", "waited", "line_keys", "sync_limits", "sync_queue_limits", "rotate_add", "rotate_guard", "rotate_carry",
		"rotate_empty", "rotate_drop", "rotate_default", "rotate_old", "rotate_tidy",
		"schedule_job", "schedule_sync", "fire_due", "fire",
	}
	texts := make([]string, len(order))
	for i, name := range order {
		text, ok := statements[name]
		if !ok {
			panic("pgstore: no statement " + name)
		}
		text = strings.ReplaceAll(text, "/* new_rows */", statements["new_rows"])
		text = strings.ReplaceAll(text, "/* new_rows, keyed */", keyedRows.ReplaceAllString(statements["new_rows"], "$1"))
		texts[i] = qualify(text, schema)
	}
	return texts
}
