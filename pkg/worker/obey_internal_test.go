package worker

import (
	"context"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

func TestAJobThatIsCancelledBetweenItsClaimAndItsStartIsGivenBackAndDoesNotStart(t *testing.T) {
	t.Parallel()
	w, err := New(hinted(t, "127.0.0.1:1"), Config{Queues: []Queue{{Name: "q", Slots: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ses := &session{}
	ses.ctx, ses.cancel = context.WithCancelCause(t.Context())
	defer ses.cancel(nil)
	ids := []job.ID{w.client.IDs().New(), w.client.IDs().New(), w.client.IDs().New()}
	tasks := make([]*task, len(ids))
	for i, id := range ids {
		tasks[i] = &task{worker: w, row: job.Row{ID: id, Queue: "q"}, handler: &handler{}, session: ses}
		w.tasks.add(tasks[i])
	}
	now := time.Now()
	w.lanes.add(tasks, now)
	runs := w.lanes.take(now)
	w.obeyCancels(ids[:2]) // the one that runs and the first that waits
	if runs != tasks[0] || runs.stopped != job.ErrCancelled {
		t.Errorf("the running one was not told: %v", runs.stopped)
	}
	if next := w.lanes.done(runs, now); next != tasks[2] {
		t.Error("the next to start is not the one that nobody cancelled")
	}
	if p := w.results.pending; len(p) != 1 || p[0].t != tasks[1] || p[0].v.verb != release {
		t.Errorf("%d decisions, want the release of the cancelled one", len(p))
	}
}
