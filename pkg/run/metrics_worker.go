package run

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

var workerMetrics = []metric[worker.Stats]{
	{"weir_worker_running_jobs", gauge, "Handlers that run now.", func(s worker.Stats) float64 { return float64(s.Running) }},
	{"weir_worker_slots", gauge, "Most handlers that may run at once.", func(s worker.Stats) float64 { return float64(s.Slots) }},
	{"weir_worker_held_jobs", gauge, "Jobs claimed whose result is not durable yet.", func(s worker.Stats) float64 { return float64(s.Held) }},
	{"weir_worker_unwritten_results", gauge, "Results that wait to be written.", func(s worker.Stats) float64 { return float64(s.Unwritten) }},
	{"weir_worker_claims_total", counter, "Claim statements.", func(s worker.Stats) float64 { return float64(s.Claims) }},
	{"weir_worker_refused_results_total", counter, "Results that came after their claim had ended.", func(s worker.Stats) float64 { return float64(s.Refused) }},
	{"weir_worker_timing_out_total", counter, "Handlers that went past their timeout.", func(s worker.Stats) float64 { return float64(s.TimingOut) }},
	{"weir_worker_abandoned_total", counter, "Handlers given up while they still ran.", func(s worker.Stats) float64 { return float64(s.Abandoned) }},
	{"weir_worker_orphans_total", counter, "Jobs given back since their claim's reply was lost.", func(s worker.Stats) float64 { return float64(s.Orphans) }},
	{"weir_worker_lost_events_total", counter, "Events that a slow subscriber missed.", func(s worker.Stats) float64 { return float64(s.LostEvents) }},
	{"weir_worker_dropped_hints_total", counter, "Hints not passed on since too many came at once.", func(s worker.Stats) float64 { return float64(s.DroppedHints) }},
	{"weir_worker_renew_seconds", gauge, "How long the last renewal of the lease took.", func(s worker.Stats) float64 { return s.RenewLag.Seconds() }},
	{"weir_worker_lease_age_seconds", gauge, "Time since the lease was last renewed; jobs are given away when it reaches timing.lease. 0 before the first.", func(s worker.Stats) float64 { return age(s.RenewedAt) }},
	{"weir_worker_poll_age_seconds", gauge, "Time since the last poll that Postgres answered. 0 before the first.", func(s worker.Stats) float64 { return age(s.PolledAt) }},
}

// attempts counts what handlers did. A claim brings only queues of the configuration and kinds that are registered, so the
// labels are bounded by what this program says, whatever producers send.
type attempts struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	pickup   *prometheus.HistogramVec
}

func newAttempts(r *prometheus.Registry) *attempts {
	a := &attempts{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_jobs_attempts_total", Help: "Attempts that ended, by what became of the job.",
		}, []string{"queue", "kind", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_jobs_duration_seconds", Help: "How long handlers ran.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2, 10, 60, 300, 1800},
		}, []string{"kind"}),
		pickup: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_jobs_pickup_seconds", Help: "From when a job was due to its claim, on the database clock.",
			Buckets: []float64{.001, .0025, .005, .01, .05, .25, 1, 5, 30, 300},
		}, []string{"queue"}),
	}
	r.MustRegister(a.total, a.duration, a.pickup)
	return a
}

// watch puts a's counting into cfg, around what the program put there.
func (a *attempts) watch(cfg *worker.Config) {
	cfg.Outermost = append([]worker.Middleware{a.measure}, cfg.Outermost...) // here, whatever process the handler runs in
	theirs := cfg.OnFinish
	cfg.OnFinish = func(ctx context.Context, row job.Row, err error, next worker.Next) {
		a.total.WithLabelValues(row.Queue, row.Kind, outcome(next)).Inc()
		if theirs != nil {
			theirs(ctx, row, err, next)
		}
	}
}

func (a *attempts) measure(ctx context.Context, row *job.Row, next func(context.Context) error) error {
	if !row.ClaimedAt.IsZero() && !row.ReadyAt.IsZero() {
		a.pickup.WithLabelValues(row.Queue).Observe(max(row.ClaimedAt.Sub(row.ReadyAt), 0).Seconds())
	}
	began := time.Now()
	defer func() { a.duration.WithLabelValues(row.Kind).Observe(time.Since(began).Seconds()) }() // also when it leaves by Goexit
	return next(ctx)
}

func outcome(next worker.Next) string {
	switch next.State {
	case job.Available:
		return "released"
	case job.Scheduled:
		return "snoozed"
	case job.Retrying:
		return "retried"
	}
	return string(next.State) // completed, discarded, cancelled
}
