package run

import (
	"testing"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// The words are those of docs/metrics.md. A worker says that a snoozed job is scheduled next.
func TestEveryEndOfAnAttemptHasItsOutcome(t *testing.T) {
	t.Parallel()
	for state, want := range map[job.State]string{
		job.Completed: "completed", job.Retrying: "retried", job.Scheduled: "snoozed", job.Discarded: "discarded",
		job.Cancelled: "cancelled", job.Available: "released",
	} {
		if got := outcome(worker.Next{State: state}); got != want {
			t.Errorf("%s: got %q, want %q", state, got, want)
		}
	}
}
