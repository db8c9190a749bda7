package coord_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/coord"
)

// perJob reports what one job costs of a call for n.
func perJob(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/job")
}

// BenchmarkLocks takes, renews and gives back the locks of 1 and 100 jobs with a key of their own, and of one key.
func BenchmarkLocks(b *testing.B) {
	for _, n := range []int{1, 100} {
		for _, hot := range []bool{false, true} {
			var jobs []coord.LockJob
			var members []coord.Member
			var swaps []coord.Swap
			for i := range n {
				key := "hot"
				if !hot {
					key = strconv.Itoa(i)
				}
				id := fmt.Sprintf("01J%023d", i)
				jobs = append(jobs, coord.LockJob{ID: id, Keys: []string{key}, Limits: []int{n}})
				members = append(members, coord.Member{Key: key, ID: id})
				swaps = append(swaps, coord.Swap{Key: key, Out: id})
			}
			name := fmt.Sprintf("jobs=%d/hot=%v", n, hot)
			bus := coord.New(real(b), patient(newNamespace()))
			b.Run("acquire+release/"+name, func(b *testing.B) {
				for b.Loop() {
					_, err := bus.Acquire(b.Context(), jobs, time.Minute)
					must(b, err)
					must(b, bus.SwapLocks(b.Context(), swaps, time.Minute))
				}
				perJob(b, n)
			})
			_, err := bus.Acquire(b.Context(), jobs, time.Minute)
			must(b, err)
			b.Run("renew/"+name, func(b *testing.B) {
				for b.Loop() {
					must(b, bus.RenewLocks(b.Context(), members, time.Minute))
				}
				perJob(b, n)
			})
			b.Run("write/"+name, func(b *testing.B) {
				truth := map[string][]string{}
				for _, m := range members {
					truth[m.Key] = append(truth[m.Key], m.ID)
				}
				for b.Loop() {
					must(b, bus.WriteHolders(b.Context(), truth, time.Minute))
				}
				perJob(b, n)
			})
		}
	}
}

// BenchmarkReserve asks for a rate with room, for one with a line of 40s, and plays one question of a full flow of 100/s.
func BenchmarkReserve(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprintf("room/jobs=%d", n), func(b *testing.B) {
			bus := coord.New(real(b), patient(newNamespace()))
			for i := 0; b.Loop(); i++ {
				reserve(b, bus, asking(fmt.Sprint(i, "/"), n, coord.RateKey{Name: "r", N: 1_000_000, Per: time.Second})...)
			}
			perJob(b, n)
		})
		b.Run(fmt.Sprintf("line/jobs=%d", n), func(b *testing.B) {
			bus := coord.New(real(b), patient(newNamespace()))
			reserve(b, bus, asking("first", 4000, hundred("").Rates[0])...)
			for i := 0; b.Loop(); i++ {
				jobs := asking(fmt.Sprint(i, "/"), n, hundred("").Rates[0])
				reserve(b, bus, jobs...)
				must(b, bus.Unreserve(b.Context(), jobs)) // or the line would reach the horizon
			}
			perJob(b, n)
		})
	}
	b.Run("come", func(b *testing.B) {
		c, bus := newClock(b, real(b))
		jobs := asking("", 5000, hundred("").Rates[0])
		wait := reserve(b, bus, jobs...)
		begin := c.ms
		for i := 0; b.Loop(); i++ {
			j := i%4800 + 100
			if i > 0 && j == 100 {
				b.Fatal("the line is over")
			}
			c.set(b, begin+wait[j].Milliseconds())
			if got := reserve(b, bus, jobs[j]); got[0] != 0 {
				b.Fatalf("job %d: got %v", j, got)
			}
		}
	})
}

// BenchmarkKeysUsedOnce uses a million keys and waits until nothing is left of them; WEIR_TEST_KEYS is another number.
func BenchmarkKeysUsedOnce(b *testing.B) {
	n := 1_000_000
	if v, err := strconv.Atoi(os.Getenv("WEIR_TEST_KEYS")); err == nil {
		n = v
	}
	for b.Loop() {
		rdb, ns := real(b), newNamespace()
		useOnce(b, coord.New(rdb, patient(ns)), n)
		leftNothing(b, rdb, ns)
	}
}
