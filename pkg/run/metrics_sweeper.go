package run

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirq/weir/pkg/sweeper"
)

var sweeperMetrics = []metric[sweeper.Stats]{
	{"weir_sweeper_trusted", gauge, "1 while this sweeper may call other processes dead.", func(s sweeper.Stats) float64 { return one(s.Trusted) }},
	{"weir_sweeper_lock_busy_total", counter, "Locks of a table that were not free within 50 ms.", func(s sweeper.Stats) float64 { return float64(s.Busy) }},
	{"weir_schedules_fired_total", counter, "Ticks of schedules that became a job.", func(s sweeper.Stats) float64 { return float64(s.Schedules.Fired) }},
	{"weir_schedules_missed_total", counter, "Ticks that came too late and were dropped, as their schedule's misfire says.", func(s sweeper.Stats) float64 { return float64(s.Schedules.Missed) }},
	{"weir_schedules_failed_total", counter, "Ticks whose job was refused, and schedules that this sweeper cannot fire.", func(s sweeper.Stats) float64 { return float64(s.Schedules.Failed) }},
}

// dutyMetrics are per duty, a fixed set of names.
var dutyMetrics = []metric[sweeper.DutyStats]{
	{"weir_sweeper_duty_runs_total", counter, "Runs of a duty.", func(d sweeper.DutyStats) float64 { return float64(d.Runs) }},
	{"weir_sweeper_duty_errors_total", counter, "Runs of a duty that ended with an error.", func(d sweeper.DutyStats) float64 { return float64(d.Errors) }},
	{"weir_sweeper_duty_rows_total", counter, "Jobs recovered, woken for, fired or expired; locks repaired; partitions made or dropped; rows deleted.", func(d sweeper.DutyStats) float64 { return float64(d.Rows) }},
	{"weir_sweeper_duty_seconds", gauge, "How long the last run of a duty took.", func(d sweeper.DutyStats) float64 { return d.Took.Seconds() }},
	{"weir_sweeper_duty_age_seconds", gauge, "Time since a run of a duty ended well; since the start before the first.", nil},
}

// duties collects dutyMetrics.
type duties struct {
	read  func() []sweeper.DutyStats
	born  time.Time
	descs []*prometheus.Desc
}

func newDuties(read func() []sweeper.DutyStats) *duties {
	d := &duties{read: read, born: time.Now()}
	for _, m := range dutyMetrics {
		d.descs = append(d.descs, prometheus.NewDesc(m.name, m.help, []string{"duty"}, nil))
	}
	return d
}

// Describe implements prometheus.Collector.
func (d *duties) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range d.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (d *duties) Collect(ch chan<- prometheus.Metric) {
	for _, duty := range d.read() {
		for i, m := range dutyMetrics {
			v := time.Since(latest(duty.LastOK, d.born)).Seconds()
			if m.value != nil {
				v = m.value(duty)
			}
			ch <- prometheus.MustNewConstMetric(d.descs[i], m.kind, v, duty.Name)
		}
	}
}

// repairs collects what was wrong with locks, a fixed set of kinds.
type repairs struct {
	read func() map[string]uint64
	desc *prometheus.Desc
}

func newRepairs(read func() map[string]uint64) *repairs {
	return &repairs{read, prometheus.NewDesc("weir_lock_repairs_total", "What the sweeper found wrong with locks and put right.", []string{"kind"}, nil)}
}

// Describe implements prometheus.Collector.
func (r *repairs) Describe(ch chan<- *prometheus.Desc) { ch <- r.desc }

// Collect implements prometheus.Collector.
func (r *repairs) Collect(ch chan<- prometheus.Metric) {
	for kind, n := range r.read() {
		ch <- prometheus.MustNewConstMetric(r.desc, counter, float64(n), kind)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
