//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// gauge writes the number of goroutines of this process to a file of its own each second, until ctx ends.
func (s *spec) gauge(ctx context.Context) {
	name := gaugeFile(s.Dir, s.Name, os.Getpid())
	for ctx.Err() == nil {
		// Under another name first: a reader never sees half of it. A disk that is full is seen by the reader, which misses it.
		if os.WriteFile(name+".new", []byte(strconv.Itoa(runtime.NumGoroutine())), 0o600) == nil {
			_ = os.Rename(name+".new", name)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func gaugeFile(dir, name string, pid int) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%d.gauge", name, pid))
}

// series is what was measured of one thing, in the order of time. A sample that could not be taken is missing.
type series struct {
	name   string
	slack  float64 // what it may grow by, beside the share of growth
	values []float64
}

// samples are what a soak has measured: a series for each thing.
type samples []*series

func (all *samples) add(name string, slack, value float64) {
	for _, s := range *all {
		if s.name == name {
			s.values = append(s.values, value)
			return
		}
	}
	*all = append(*all, &series{name, slack, []float64{value}})
}

// sample measures everything at intervals until the time is over.
func (s *soak) sample(every time.Duration) samples {
	s.t.Helper()
	var all samples
	for s.wait(every) {
		for _, p := range slices.Concat(s.lasting, s.producers) {
			if n, err := residentKB(p); err == nil {
				all.add(p.name+" RSS, KB", 8<<10, n)
			}
			if n, err := goroutines(p); err == nil {
				all.add(p.name+" goroutines", 50, n)
			}
		}
		if n, err := s.rdb.DBSize(s.over).Result(); err == nil {
			all.add("Redis keys", 50, float64(n))
		}
		s.tables(&all)
	}
	return all
}

func residentKB(p *process) (float64, error) {
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(p.cmd.Process.Pid)).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

func goroutines(p *process) (float64, error) {
	text, err := os.ReadFile(gaugeFile(p.rig.dir, p.name, p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(text), 64)
}

// tables measures all that hold no history, with their indexes, and counts the jobs that have not ended. While Postgres is
// away there is nothing to measure.
func (s *soak) tables(all *samples) {
	ctx, cancel := context.WithTimeout(s.over, 5*time.Second)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT relname, pg_total_relation_size(oid) / 1024.0 FROM pg_class
		WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND NOT relispartition AND relname <> 'migrations' ORDER BY 1`, s.namespace)
	if err != nil {
		return
	}
	defer rows.Close()
	for rows.Next() {
		var (
			name string
			size float64
		)
		if rows.Scan(&name, &size) == nil {
			all.add("table "+name+", KB", 512, size)
		}
	}
	if n := s.count("SELECT count(*) FROM weir.live"); n >= 0 {
		all.add("jobs not ended", 1000, float64(n))
	}
}

// third returns the median of one third of the samples: 0, 1 or 2.
func (s *series) third(i int) float64 {
	n := len(s.values)
	part := slices.Sorted(slices.Values(s.values[i*n/3 : (i+1)*n/3]))
	if len(part) == 0 {
		return 0
	}
	return part[len(part)/2]
}

// grown names the series whose last third lies clearly above the one before.
func (all samples) grown() (faults []string) {
	for _, s := range all {
		if middle, last := s.third(1), s.third(2); last > 1.3*middle+s.slack {
			faults = append(faults, fmt.Sprintf("%s: %.0f in the last third of the time, %.0f in the one before", s.name, last, middle))
		}
	}
	return faults
}

// String is a table: a line for each series, with the medians of the thirds and some samples.
func (all samples) String() string {
	var text strings.Builder
	const shown = 8
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tfirst\tmiddle\tlast\tmost\t|\tsamples\t")
	for _, s := range all {
		fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t|\t", s.name, s.third(0), s.third(1), s.third(2), slices.Max(s.values))
		for i := range min(shown, len(s.values)) {
			fmt.Fprintf(table, "%.0f\t", s.values[i*len(s.values)/min(shown, len(s.values))])
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // a strings.Builder fails nothing
	return text.String()
}
