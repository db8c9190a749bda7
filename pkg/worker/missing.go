package worker

import (
	"errors"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// putOffMissing gives jobs without a log row back for a second, not counted, and after the grace discards them.
func (d *dispatcher) putOffMissing(s *session, rows []job.Row) {
	for id, first := range d.missing {
		if time.Since(first) > 2*d.w.cfg.MissingPayloadGrace {
			delete(d.missing, id) // others took it, or its log row came back
		}
	}
	for _, row := range rows {
		first, seen := d.missing[row.ID]
		if !seen {
			first = time.Now()
			d.missing[row.ID] = first
		}
		t := &task{worker: d.w, row: row, session: s, handler: d.w.handlers[row.Kind], decided: true, freed: true}
		t.row.Session = s.id
		d.w.tasks.add(t)
		if time.Since(first) < d.w.cfg.MissingPayloadGrace {
			d.w.results.add(&decision{t: t, v: verdict{verb: release, event: EventReleased}, wait: time.Second, broken: true})
			continue
		}
		delete(d.missing, row.ID)
		v := verdict{failure: pgstore.Failure{Held: t.held()}}
		v.end(job.DeadDiscarded, "discarded", EventDiscarded, errNoPayload)
		d.w.results.aside(func() { d.w.notifyError(t.context(), t, &v) }, func() { d.w.results.submit(t, v) })
	}
}

var (
	errNoPayload = errors.New("its payload is missing from the log")
	errNoSession = errors.New("no session yet")
)
