//go:build unix

package chaos_test

import (
	"time"

	"github.com/weirq/weir/pkg/job"
)

// keyRuns returns the runs of all jobs with keys, and the limits of these. It is the book of tests that need not know what a
// frozen process does: by the ledgers a run goes from the start of its handler to its end, on the machine's clock.
func (r *rig) keyRuns() (runs []run, limit func(string, time.Time) int) {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), r.in(`SELECT id, keys, coalesce(key_limits, '{}') FROM weir.jobs WHERE keys IS NOT NULL`))
	must(r.t, err)
	keys, limits := map[job.ID][]string{}, map[string]int{}
	for rows.Next() {
		var (
			id    job.ID
			names []string
			each  []int
		)
		must(r.t, rows.Scan((*[16]byte)(&id), &names, &each))
		keys[id] = names
		for i, name := range names {
			limits[name] = 1
			if len(each) > 0 {
				limits[name] = each[i]
			}
		}
	}
	must(r.t, rows.Err())
	all := readLedgers(r.t, r.dir)
	type claim struct {
		id      job.ID
		fence   int
		process string
	}
	ends := map[claim]time.Time{}
	for _, e := range all.of(ended) {
		ends[claim{e.ID, e.Fence, e.Process}] = e.At
	}
	for _, e := range all.of(started) {
		if names, ok := keys[e.ID]; ok {
			runs = append(runs, run{
				id: e.ID, fence: e.Fence, process: e.Process, keys: names, claimed: e.At, from: e.At, to: ends[claim{e.ID, e.Fence, e.Process}],
			})
		}
	}
	return runs, func(key string, _ time.Time) int { return limits[key] }
}

// endedWith ends the runs of a process that died or was set back: what it held is free after that.
func endedWith(runs []run, process string, at time.Time) []run {
	for i := range runs {
		if runs[i].process == process {
			runs[i].until(&at)
		}
	}
	return runs
}
