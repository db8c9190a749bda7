package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// Figure is one measured number.
type Figure struct {
	Case  string  `json:"case"`
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Want  string  `json:"want,omitempty"` // ">= 80000": the bound the project promises; empty: none
	Note  string  `json:"note,omitempty"`
}

// OK reports whether the figure keeps its bound.
func (f Figure) OK() bool {
	var op string
	var bound float64
	if n, _ := fmt.Sscanf(f.Want, "%s %g", &op, &bound); n != 2 {
		return true
	}
	if op == ">=" {
		return f.Value >= bound
	}
	return f.Value <= bound
}

// Case measures one thing.
type Case struct {
	Name  string
	About string
	Quick bool // runs by default; the others take minutes
	Run   func(context.Context, *Env) ([]Figure, error)
}

// Cases lists all cases in the order in which they run.
func Cases() []Case {
	return slices.Concat(enqueueCases(), processCases(), pickupCases(), costCases(), keyCases(), depthCases())
}

// Env is where a case measures.
type Env struct {
	PostgresURL string
	Redis       redis.UniversalClient // nil: Postgres alone
	Pooler      bool                  // PostgresURL leads to a transaction-pooling PgBouncer
	Scale       float64               // of the sizes of depth cases: 1 is what the project promises
	Log         func(format string, args ...any)
}

// stage is a fresh schema with a pool and a client.
type stage struct {
	env       *Env
	namespace string
	pool      *pgxpool.Pool
	client    *client.Client
}

// open makes a fresh schema.
func (e *Env) open(ctx context.Context, name string) (*stage, error) {
	cfg, err := pgxpool.ParseConfig(e.PostgresURL)
	if err != nil {
		return nil, fmt.Errorf("the Postgres URL is not valid")
	}
	cfg.MaxConns = 16
	if e.Pooler {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &stage{env: e, namespace: fmt.Sprintf("b%d_%s", time.Now().UnixNano()%1e9, name), pool: pool}
	if len(s.namespace) > 30 {
		s.namespace = s.namespace[:30]
	}
	if _, err := migrate.Up(ctx, pool, migrate.Config{Schema: s.namespace, Ahead: 1}); err != nil {
		pool.Close()
		return nil, err
	}
	s.client, err = client.New(pool, client.Config{Namespace: s.namespace, Redis: e.Redis, Pooler: e.Pooler})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// close drops the schema and closes what open opened.
func (s *stage) close() {
	s.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _ = s.pool.Exec(ctx, fmt.Sprintf(`DROP SCHEMA %q CASCADE`, s.namespace))
	s.pool.Close()
}

func (s *stage) exec(ctx context.Context, format string, args ...any) error {
	_, err := s.pool.Exec(ctx, fmt.Sprintf(format, args...))
	return err
}

// on runs f on a fresh schema.
func on(name string, f func(context.Context, *stage) ([]Figure, error)) func(context.Context, *Env) ([]Figure, error) {
	return func(ctx context.Context, e *Env) ([]Figure, error) {
		s, err := e.open(ctx, name)
		if err != nil {
			return nil, err
		}
		defer s.close()
		return f(ctx, s)
	}
}

// rounds runs f n times and returns the median of what it returns.
func rounds(n int, f func() (float64, error)) (float64, error) {
	values := make([]float64, n)
	for i := range values {
		var err error
		if values[i], err = f(); err != nil {
			return 0, err
		}
	}
	return quantile(values, 0.5), nil
}

// quantile returns the q-quantile of values by the nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
