package run

import (
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/weirq/weir/pkg/coord"
)

// metric is one number of a snapshot S. docs/metrics.md lists them all; a test compares.
type metric[S any] struct {
	name  string
	kind  prometheus.ValueType
	help  string
	value func(S) float64
}

// collector reads a snapshot at each scrape. Its series are fixed: no label comes from data.
type collector[S any] struct {
	read    func() S
	metrics []metric[S]
	descs   []*prometheus.Desc
}

func newCollector[S any](read func() S, metrics []metric[S]) *collector[S] {
	c := &collector[S]{read: read, metrics: metrics}
	for _, m := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, nil, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector[S]) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.read()
	for i, m := range c.metrics {
		ch <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.value(snapshot))
	}
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// newRegistry returns a registry of this process alone: nothing that another library registered globally is in it.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels are the program's version and Go's.",
		ConstLabels: prometheus.Labels{"version": shortVersion(), "go": runtime.Version()},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

var busMetrics = []metric[*coord.Bus]{
	{"weir_redis_up", gauge, "1 while hints flow, 0 while Redis is away or off.", func(b *coord.Bus) float64 { return one(b.Enabled() && b.Healthy()) }},
	{"weir_redis_hints_sent_total", counter, "Hints that reached a worker.", func(b *coord.Bus) float64 { return float64(b.Stats().HintsSent) }},
	{"weir_redis_hints_unheard_total", counter, "Idle workers that were told and were gone.", func(b *coord.Bus) float64 { return float64(b.Stats().HintsUnheard) }},
	{"weir_redis_hints_lost_total", counter, "Hints not sent since Redis was away.", func(b *coord.Bus) float64 { return float64(b.Stats().HintsLost) }},
	{"weir_redis_hints_exhausted_total", counter, "Hints passed on too often and given up.", func(b *coord.Bus) float64 { return float64(b.Stats().HintsExhausted) }},
	{"weir_redis_hints_heard_total", counter, "Hints received.", func(b *coord.Bus) float64 { return float64(b.Stats().HintsHeard) }},
	{"weir_redis_controls_sent_total", counter, "Messages about pauses and cancellations sent.", func(b *coord.Bus) float64 { return float64(b.Stats().ControlsSent) }},
	{"weir_redis_controls_heard_total", counter, "Messages about pauses and cancellations received.", func(b *coord.Bus) float64 { return float64(b.Stats().ControlsHeard) }},
	{"weir_redis_locks_gone_total", counter, "Holders of keys that Redis did not have when they were renewed.", func(b *coord.Bus) float64 { return float64(b.Stats().LocksGone) }},
	{"weir_redis_locks_wrong_total", counter, "Holders in Redis that Postgres did not have when the truth was written; also grants not decided yet.", func(b *coord.Bus) float64 { return float64(b.Stats().LocksWrong) }},
	{"weir_redis_locks_missing_total", counter, "Holders in Postgres that Redis did not have when the truth was written.", func(b *coord.Bus) float64 { return float64(b.Stats().LocksMissing) }},
	{"weir_redis_garbled_total", counter, "Messages received that could not be read.", func(b *coord.Bus) float64 { return float64(b.Stats().Garbled) }},
	{"weir_redis_failures_total", counter, "Commands that got no answer, or an error.", func(b *coord.Bus) float64 { return float64(b.Stats().Failures) }},
	{"weir_redis_refused_total", counter, "Commands not sent, the circuit breaker being open.", func(b *coord.Bus) float64 { return float64(b.Stats().Refused) }},
	{"weir_redis_breaker_opens_total", counter, "Times that the circuit breaker opened.", func(b *coord.Bus) float64 { return float64(b.Stats().BreakerOpens) }},
	{"weir_redis_subscriptions_total", counter, "Subscriptions made: the first and one after each loss.", func(b *coord.Bus) float64 { return float64(b.Stats().Subscriptions) }},
}

var contactMetrics = []metric[*contact]{
	{"weir_postgres_statements_total", counter, "Statements sent, handlers' own on the client's pool included.", func(c *contact) float64 { return float64(c.statements.Load()) }},
	{"weir_postgres_statement_errors_total", counter, "Statements that the server answered with an error.", func(c *contact) float64 { return float64(c.refused.Load()) }},
	{"weir_postgres_connect_errors_total", counter, "Connections that could not be made.", func(c *contact) float64 { return float64(c.fails.Load()) }},
	{"weir_postgres_answer_age_seconds", gauge, "Time since the server last answered.", func(c *contact) float64 { return c.sinceAnswer().Seconds() }},
}

// The client's pool. A worker's three connections for claims and results, the one for renewals and the three of a sweeper in it
// are its own.
var poolMetrics = []metric[*pgxpool.Stat]{
	{"weir_postgres_pool_connections", gauge, "Connections of the client's pool.", func(s *pgxpool.Stat) float64 { return float64(s.TotalConns()) }},
	{"weir_postgres_pool_in_use", gauge, "Connections of the client's pool in use.", func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) }},
	{"weir_postgres_pool_limit", gauge, "Most connections of the client's pool: postgres.max_conns.", func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) }},
	{"weir_postgres_pool_acquires_total", counter, "Connections taken from the client's pool.", func(s *pgxpool.Stat) float64 { return float64(s.AcquireCount()) }},
	{"weir_postgres_pool_wait_seconds_total", counter, "Time spent waiting for the client's pool.", func(s *pgxpool.Stat) float64 { return s.AcquireDuration().Seconds() }},
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// age returns how long ago at was, in seconds; 0 if never.
func age(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return time.Since(at).Seconds()
}
