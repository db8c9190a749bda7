package client_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/testenv"
)

// proxied returns a pool that goes through a proxy to the shared server.
func proxied(tb testing.TB, change ...func(*pgxpool.Config)) (*pgxpool.Pool, *testenv.Proxy) {
	tb.Helper()
	server, err := pgxpool.ParseConfig(testenv.Postgres(tb))
	if err != nil {
		tb.Fatal(err)
	}
	p := testenv.NewProxy(tb, net.JoinHostPort(server.ConnConfig.Host, strconv.Itoa(int(server.ConnConfig.Port))))
	_, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		tb.Fatal(err)
	}
	pool := poolBy(tb, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Host, cfg.ConnConfig.Port = "127.0.0.1", uint16(number)
		cfg.ConnConfig.Fallbacks, cfg.ConnConfig.TLSConfig = nil, nil // the marker must be readable
		for _, f := range change {
			f(cfg)
		}
	})
	return pool, p
}
