package client_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
)

// dbTime returns the database's time.
func dbTime(t *testing.T, c rig) (now time.Time) {
	t.Helper()
	if err := c.pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now
}

func TestIDsCarryTheTimeOfTheDatabaseWhateverThisHostsClockSays(t *testing.T) { // B16
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	for _, wrong := range []time.Duration{-time.Hour, -10 * time.Minute, -2 * time.Second, 2 * time.Second, 10*time.Minute + time.Second, time.Hour} {
		// An offset that is wrong by so much is what a clock that was set by as much leaves behind.
		for name, call := range map[string]func() job.ID{
			"Enqueue": func() job.ID { return c.enqueue(t, welcome{}) },
			"EnqueueMany": func() job.ID {
				got, err := c.EnqueueMany(t.Context(), []job.Spec{{Args: welcome{}}})
				if err != nil {
					t.Fatal(err)
				}
				return got[0].ID
			},
			"many statements": func() job.ID {
				jobs := make([]job.Spec, 1001)
				for i := range jobs {
					jobs[i].Args = welcome{}
				}
				got, err := c.EnqueueMany(t.Context(), jobs)
				if err != nil {
					t.Fatal(err)
				}
				return got[0].ID
			},
		} {
			c.IDs().SetOffset(c.IDs().Offset() + wrong)
			first := call() // may be made before the answer came that corrects the clock; never far ahead
			now := dbTime(t, c)
			if ahead := first.Time().Sub(now); ahead > 10*time.Minute {
				t.Errorf("clock off by %v, %s: an id is %v ahead", wrong, name, ahead)
			}
			row, err := c.Job(t.Context(), first)
			if err != nil || now.Sub(row.ReadyAt).Abs() > time.Second || row.State != job.Available {
				t.Errorf("clock off by %v, %s: ready at %v, it is %v; %v", wrong, name, row.ReadyAt, now, err)
			}
		}
		if off := c.IDs().Offset().Abs(); off > time.Second {
			t.Errorf("clock off by %v: the offset is %v", wrong, off)
		}
	}
}

func TestADelayCountsOnTheDatabaseClock(t *testing.T) { // B16
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	for _, wrong := range []time.Duration{-10 * time.Minute, 9 * time.Minute} {
		c.IDs().SetOffset(wrong)
		row, err := c.Job(t.Context(), c.enqueue(t, welcome{}, job.Options{Delay: 5 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(row.ReadyAt) - 5*time.Second; off.Abs() > time.Second {
			t.Errorf("clock off by %v: due in %v", wrong, time.Until(row.ReadyAt))
		}
	}
}

func TestTheFirstIDOfAHostWithAWrongClockIsRight(t *testing.T) { // B16
	t.Parallel()
	base := open(t)
	for name, call := range map[string]func(c rig) (job.ID, error){
		"Enqueue": func(c rig) (job.ID, error) {
			e, err := c.Enqueue(t.Context(), welcome{})
			return e.ID, err
		},
		"EnqueueTx": func(c rig) (id job.ID, err error) {
			err = c.InTx(t.Context(), func(tx pgx.Tx) error {
				e, err := c.EnqueueTx(t.Context(), tx, welcome{})
				id = e.ID
				return err
			})
			return id, err
		},
	} {
		c := clientOn(t, base.pool, base.namespace)
		c.IDs().SetOffset(time.Hour) // nothing was learnt yet: it is asked for before the first id is made
		id, err := call(c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if off := id.Time().Sub(dbTime(t, c)); off.Abs() > time.Second {
			t.Errorf("%s: the id is off by %v", name, off)
		}
	}
}

func TestATransactionRefusedForItsClockSucceedsTheSecondTime(t *testing.T) {
	t.Parallel()
	c := open(t)
	c.enqueue(t, welcome{})
	c.IDs().SetOffset(time.Hour)
	try := func() error {
		return c.InTx(t.Context(), func(tx pgx.Tx) error {
			_, err := c.EnqueueTx(t.Context(), tx, welcome{})
			return err
		})
	}
	if err := try(); err == nil {
		t.Error("an id of an hour ahead was stored")
	}
	if err := try(); err != nil {
		t.Error(err)
	}
}

func TestASlowAnswerSaysNothingAboutTheClock(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	now := time.Now()
	c.Learn(now.Add(time.Minute), now) // a first sample
	if off := c.IDs().Offset() - time.Minute; off.Abs() > time.Second {
		t.Errorf("offset %v", c.IDs().Offset())
	}
	c.Learn(now.Add(time.Hour), now.Add(-3*time.Second))
	c.Learn(now.Add(time.Hour), now.Add(time.Hour)) // sent in the future
	c.Learn(time.Time{}, now)
	if off := c.IDs().Offset() - time.Minute; off.Abs() > time.Second {
		t.Errorf("offset %v", c.IDs().Offset())
	}
}

func TestIDsOfManyCallersRiseAndDiffer(t *testing.T) { // B17
	t.Parallel()
	c := nowhere(t)
	const callers, each = 16, 200_000 / 16
	ids := make([]job.ID, callers*each)
	var wg sync.WaitGroup
	for caller := range callers {
		mine := ids[caller*each : (caller+1)*each]
		wg.Go(func() {
			for i := range mine {
				mine[i] = c.IDs().New()
			}
			if !slices.IsSortedFunc(mine, compare) {
				t.Error("a caller's ids do not rise")
			}
		})
	}
	wg.Wait()
	slices.SortFunc(ids, compare)
	if n := len(slices.Compact(ids)); n != callers*each {
		t.Errorf("%d ids came again", callers*each-n)
	}
}

func compare(a, b job.ID) int { return bytes.Compare(a[:], b[:]) }

func TestTheIDsOfConsecutiveCallsRise(t *testing.T) {
	t.Parallel()
	c := open(t)
	var last job.ID
	for range 20 {
		id := c.enqueue(t, welcome{})
		if compare(last, id) >= 0 {
			t.Errorf("%s after %s", id, last)
		}
		last = id
	}
}
