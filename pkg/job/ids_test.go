package job_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/job"
)

func TestTwoMillionIDsOfOneGeneratorAreUniqueAndRiseInEachGoroutine(t *testing.T) {
	t.Parallel()
	total := 2_000_000
	if testenv.Race || testing.Short() {
		total = 100_000
	}
	for _, goroutines := range []int{1, 4, 16} {
		t.Run(fmt.Sprintf("from %d goroutines", goroutines), func(t *testing.T) {
			var (
				g  job.IDs
				wg sync.WaitGroup
			)
			lists := make([][]job.ID, goroutines)
			for i := range lists {
				wg.Go(func() {
					ids := make([]job.ID, total/goroutines)
					for k := range ids {
						ids[k] = g.New()
					}
					lists[i] = ids
				})
			}
			wg.Wait()
			for i, ids := range lists {
				if k := firstNotRising(ids); k >= 0 {
					t.Fatalf("goroutine %d: id %d is %s after %s, want a greater one", i, k, ids[k], ids[k-1])
				}
			}
			all := merge(lists)
			if k := firstNotRising(all); k >= 0 || len(all) != total {
				t.Fatalf("got %d ids, twice the one at %d, want %d different ones", len(all), k, total)
			}
		})
	}
}

// firstNotRising returns the index of the first id that is not above the one before it, or -1.
func firstNotRising(ids []job.ID) int {
	for i := 1; i < len(ids); i++ {
		if bytes.Compare(ids[i-1][:], ids[i][:]) >= 0 {
			return i
		}
	}
	return -1
}

// merge joins rising lists into one that does not fall.
func merge(lists [][]job.ID) []job.ID {
	if len(lists) == 1 {
		return lists[0]
	}
	a, b := merge(lists[:len(lists)/2]), merge(lists[len(lists)/2:])
	out := make([]job.ID, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[0][:], b[0][:]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func TestAnOffsetMovesTheTimeInTheIDs(t *testing.T) {
	t.Parallel()
	var g job.IDs
	if g.Offset() != 0 {
		t.Errorf("offset before SetOffset: got %v, want 0", g.Offset())
	}
	for _, offset := range []time.Duration{0, 90 * time.Second, time.Hour} { // rising: an id never goes back
		g.SetOffset(offset)
		if g.Offset() != offset {
			t.Errorf("Offset: got %v, want %v", g.Offset(), offset)
		}
		before := time.Now().Add(offset).Truncate(time.Millisecond)
		id := g.New()
		if after := time.Now().Add(offset); id.Time().Before(before) || id.Time().After(after) {
			t.Errorf("offset %v: got an id of %v, want one of %v to %v", offset, id.Time(), before, after)
		}
	}
}

func TestIDsKeepRisingWhenTheOffsetGoesBackAnHour(t *testing.T) {
	t.Parallel()
	var g job.IDs
	g.SetOffset(time.Hour)
	ids := []job.ID{g.New()}
	g.SetOffset(0)
	for range 1000 {
		ids = append(ids, g.New())
	}
	if k := firstNotRising(ids); k >= 0 {
		t.Errorf("id %d is %s after %s, want a greater one", k, ids[k], ids[k-1])
	}
}
