package worker

import (
	"slices"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// pauses is what the last renewal said is paused. It belongs to the renewing goroutine.
type pauses struct{ queues, kinds []string }

// obeyPauses acts on what a renewal says: what was claimed of a paused queue or kind and has not started is given back,
// and when a pause has ended everything is looked at. A control message is only the reason to renew at once, so one that
// was lost costs a renewal's interval.
func (w *Worker) obeyPauses(c pgstore.Changes) {
	isPaused := func(row *job.Row) bool {
		return slices.Contains(c.PausedQueues, row.Queue) || slices.Contains(c.PausedKinds, row.Kind)
	}
	if len(c.PausedQueues)+len(c.PausedKinds) > 0 {
		w.giveBack(w.lanes.takeWaiting(func(t *task) bool { return !isPaused(&t.row) }))
	}
	gone := func(before, now []string) bool {
		return slices.ContainsFunc(before, func(name string) bool { return !slices.Contains(now, name) })
	}
	if gone(w.pauses.queues, c.PausedQueues) || gone(w.pauses.kinds, c.PausedKinds) {
		w.disp.lookAtAll() // scans have passed over the rows of a paused kind
	}
	w.pauses = pauses{c.PausedQueues, c.PausedKinds}
}

// obeyCancels stops the handlers of jobs that somebody asked to cancel. What has not started does not start any more: to
// give it back ends it as cancelled.
func (w *Worker) obeyCancels(ids []job.ID) {
	if len(ids) == 0 {
		return
	}
	w.giveBack(w.lanes.takeWaiting(func(t *task) bool { return !slices.Contains(ids, t.row.ID) }))
	for _, id := range ids {
		w.tasks.stop(id, job.ErrCancelled)
	}
}

// giveBack releases claimed tasks that have not started.
func (w *Worker) giveBack(tasks []*task) {
	for _, t := range tasks {
		if t.decide() {
			w.results.submit(t, verdict{verb: release, event: EventReleased})
		}
	}
}
