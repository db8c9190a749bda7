package pgstore_test

import (
	"testing"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// What was running when two processes died is looked for apart from the rest. Its time may have passed all the same.
func TestAJobThatExpiredAfterTwoCrashesDoesNotStart(t *testing.T) {
	t.Parallel()
	b := open(t)
	session := b.session()
	ids := b.enqueue(2, func(j *pgstore.NewJob) { j.ExpiresIn = time.Hour })
	b.exec("UPDATE weir.live SET crashes = 2")
	b.exec("UPDATE weir.live SET expires_at = clock_timestamp() - interval '1 ms' WHERE id = $1", ids[0].UUID())
	req := request(session, 10)
	req.Suspect = true
	got, err := b.store.Claim(b.ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Jobs) != 1 || got.Jobs[0].ID != ids[1] {
		t.Errorf("claimed %v, want the one whose time has not passed", got.Jobs)
	}
}
