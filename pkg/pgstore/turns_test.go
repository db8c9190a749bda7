package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// Eight claims of a queue are under way, their transactions open: as many as may be. The ninth leaves the queue alone, says
// so and waits for nobody; told to, it claims all the same, so that frozen holders cannot stop a queue.
func TestANinthClaimOfAQueueGivesWay(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.enqueue(30)
	session := b.session()
	for i := range 8 {
		conn, err := pgx.ConnectConfig(b.ctx, b.pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(b.ctx) }() // rolls back
		tx, err := conn.Begin(b.ctx)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.store.On(tx).Claim(b.ctx, request(session, 2))
		if err != nil || got.Contended || len(got.Jobs) != 2 {
			t.Fatal(fmt.Errorf("claim %d: %d jobs, contended %v: %w", i+1, len(got.Jobs), got.Contended, err))
		}
	}
	got, err := b.store.Claim(b.ctx, request(session, 2))
	if err != nil || !got.Contended || len(got.Jobs) != 0 {
		t.Errorf("the ninth claim: %d jobs, contended %v, %v", len(got.Jobs), got.Contended, err)
	}
	// It is refused before anything is looked at, even whose claim it is; but a poll is answered what it has come for.
	if got, err = b.store.Claim(b.ctx, request(job.ID{1}, 2)); err != nil || !got.Contended {
		t.Errorf("the ninth claim, of a session that is not there: contended %v, %v", got.Contended, err)
	}
	poll := request(session, 2)
	poll.Poll = true
	if got, err = b.store.Claim(b.ctx, poll); err != nil || !got.Contended || got.Snapshot == "" {
		t.Errorf("the ninth claim, a poll: contended %v, snapshot %q, %v", got.Contended, got.Snapshot, err)
	}
	forced := request(session, 2)
	forced.Force = true
	if got, err = b.store.Claim(b.ctx, forced); err != nil || got.Contended || len(got.Jobs) != 2 {
		t.Errorf("told to claim: %d jobs, contended %v, %v", len(got.Jobs), got.Contended, err)
	}
}
