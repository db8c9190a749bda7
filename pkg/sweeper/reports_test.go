package sweeper_test

import (
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestReportsOfJobsThatEndedGoWithTheRetentionAndThoseOfTheDeadStay(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	sw := s.sweeper(sweeper.Config{})
	live := s.enqueue(2)
	if err := s.c.Cancel(t.Context(), live[1]); err != nil {
		t.Fatal(err)
	}
	insert := `INSERT INTO weir.reports (job_id, fence, at, checkpoint) VALUES ($1, 1, now() - $2 * interval '1 h', '1')`
	s.exec(insert, [16]byte(live[0]), 100)         // it may need it
	s.exec(insert, [16]byte(live[1]), 100)         // it may be retried by hand
	s.exec(insert, [16]byte(s.c.IDs().New()), 1)   // its retention is not over
	s.exec(insert, [16]byte(s.c.IDs().New()), 100) // over
	s.exec(`INSERT INTO weir.reports (job_id, fence, at, percent) SELECT gen_random_uuid(), 1, now() - interval '100 h', 5 FROM generate_series(1, 2500)`)
	if n := s.duty(sw, "reports"); n != 2501 {
		t.Errorf("%d reports went, want 2501", n)
	}
	if n := s.count(`SELECT count(*) FROM weir.reports`); n != 3 {
		t.Errorf("%d reports are left, want 3", n)
	}
}

func TestAReportOfAJobThatSpeaksAgainStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, testenv.RedisNone)
	id := s.c.IDs().New()
	s.exec(`INSERT INTO weir.reports (job_id, fence, at, percent) VALUES ($1, 1, now() - interval '100 h', 5)`, [16]byte(id))
	over, _, err := s.store.Reports(t.Context(), [16]byte{}, 0, 10)
	if len(over) != 1 || err != nil {
		t.Fatalf("seen %v, %v", over, err)
	}
	s.exec(`UPDATE weir.reports SET fence = 2`)
	if n, err := s.store.DeleteReports(t.Context(), []pgstore.ReportRow{over[0]}); n != 0 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}
