package pgstore_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

func TestDebugPlan(t *testing.T) {
	url := testenv.Postgres(t)
	cfg, _ := pgxpool.ParseConfig(url)
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { fmt.Println(n.Message) }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := migrate.Up(t.Context(), pool, migrate.Config{Schema: "dbg", Ahead: 1}); err != nil {
		t.Fatal(err)
	}
	b := benchOn(t, pool, "dbg")
	for _, table := range b.rows("SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace", b.schema) {
		b.exec("ALTER TABLE " + table + " SET (autovacuum_enabled = off)")
		if os.Getenv("VAC") != "" {
			b.exec("VACUUM (ANALYZE) " + table)
		}
	}
	conn, _ := pool.Acquire(b.ctx)
	defer conn.Release()
	p := &planned{bench: b.on(conn.Conn()), conn: conn.Conn()}
	for range 7 {
		p.script(2)
	}
	p.load(*planJobs)
	for _, q := range []string{"LOAD 'auto_explain'", "SET auto_explain.log_nested_statements = on", "SET auto_explain.log_min_duration = 2",
		"SET auto_explain.log_analyze = on", "SET auto_explain.log_buffers = on", "SET client_min_messages = log"} {
		if _, err := conn.Exec(b.ctx, q, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	p.script(100)
}
