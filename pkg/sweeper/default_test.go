package sweeper_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
	"github.com/weirq/weir/pkg/sweeper"
)

func TestRowsThatCameBeforeTheirPartitionStayInTheDefaultOne(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{})
	for _, name := range c.partitions("jobs") {
		c.exec(`DROP TABLE weir.` + name)
	}
	c.enqueue(20)
	c.rotate(c.now, 2)
	want := []string{pgstore.PartitionName("jobs", pgstore.Day, c.now.Add(day)), pgstore.PartitionName("jobs", pgstore.Day, c.now.Add(2*day))}
	if got := c.partitions("jobs"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	w := c.worker(time.Hour)
	c.finish(w, c.claim(w, 20))
	c.rotate(c.midnight(3), 2)
	if n := c.count(`SELECT count(*) FROM weir.jobs_default`); n != 0 {
		t.Errorf("%d rows are left after the retention", n)
	}
}

func TestBehindALargeDefaultPartitionThoseFarAheadAreMadeAfterASearchThatStopsNobody(t *testing.T) {
	t.Parallel()
	c := newCalendar(t, sweeper.Config{Ahead: 4})
	for _, name := range c.partitions("jobs") {
		c.exec(`DROP TABLE weir.` + name)
	}
	payload := []byte(`"` + strings.Repeat("x", 1500) + `"`)
	for range 12 {
		c.enqueue(1000, func(_ int, j *pgstore.NewJob) { j.Payload = payload })
	}
	c.exec(`ALTER TABLE weir.jobs_default ADD CONSTRAINT jobs_20990101_guard CHECK (id IS NOT NULL)`) // far away: not ours to take
	near := pgstore.Partition{Parent: "jobs", Name: pgstore.PartitionName("jobs", pgstore.Hour, c.now.Add(2*time.Hour))}
	_, near.From, near.To, _ = pgstore.ParsePartition(near.Name)
	if err := c.store.GuardPartition(t.Context(), near, time.Minute); err != nil { // its sweeper ended here
		t.Fatal(err)
	}
	c.rotate(c.now, 1)
	got := c.partitions("jobs")
	for n := 2; n <= 4; n++ {
		if name := pgstore.PartitionName("jobs", pgstore.Day, c.now.Add(time.Duration(n)*day)); !slices.Contains(got, name) {
			t.Errorf("%s is not made: %v", name, got)
		}
	}
	guards, err := c.store.Guards(t.Context())
	if err != nil || len(guards) != 1 || guards[0].Name != "jobs_20990101" {
		t.Errorf("guards that are left: %v, %v", guards, err)
	}
	c.enqueue(5) // nothing is refused
}
