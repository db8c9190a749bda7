package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/pkg/coord"
)

// oddKeys are oddNames with names of 255 bytes, and pairs that differ by a separator alone.
func oddKeys() []string {
	return append(slices.Clone(oddNames), strings.Repeat("k", 255), strings.Repeat("k", 254)+":", strings.Repeat("{", 255),
		"account:4 2", "account:42", "account::42", "account{42}", "account\n42", "account*42", "lock:a", "rate:a", "🙂🙂", "🙂 🙂")
}

func one(id string, keys ...string) []coord.LockJob { return []coord.LockJob{{ID: id, Keys: keys}} }

func acquire(t testing.TB, b *coord.Bus, jobs []coord.LockJob) string {
	t.Helper()
	busy, err := b.Acquire(t.Context(), jobs, time.Minute)
	must(t, err)
	return strings.Join(busy, ",")
}

func holding(t testing.TB, b *coord.Bus, key string) string {
	t.Helper()
	holders, err := b.Holders(t.Context(), key)
	must(t, err)
	var ids []string
	for _, h := range holders {
		ids = append(ids, h.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, ",")
}

func TestALockIsHadOnceAndGivenOn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		for range 2 { // a call that is repeated changes nothing
			if got := acquire(t, b, one("1", "a")); got != "" {
				t.Errorf("first: busy %q", got)
			}
		}
		if got := acquire(t, b, one("2", "a")); got != "a" {
			t.Errorf("second: got %q, want it refused on a", got)
		}
		must(t, b.SwapLocks(t.Context(), []coord.Swap{{Key: "a", Out: "1", In: "2"}}, time.Minute))
		must(t, b.SwapLocks(t.Context(), []coord.Swap{{Key: "a", Out: "1"}}, time.Minute)) // a late release of the first
		if got := holding(t, b, "a"); got != "2" {
			t.Errorf("holders: got %q, want 2", got)
		}
		must(t, b.SwapLocks(t.Context(), []coord.Swap{{Key: "a", Out: "2"}}, time.Minute))
		if got := acquire(t, b, one("3", "a")); got != "" {
			t.Errorf("after the release: busy %q", got)
		}
	})
}

// Guard `batchOrder`: who was refused keeps its keys from the later ones of the call.
func TestARefusedJobKeepsLaterOnesOffItsKeys(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		acquire(t, b, one("holder", "b"))
		jobs := []coord.LockJob{{ID: "1", Keys: []string{"a", "b"}}, {ID: "2", Keys: []string{"a"}}, {ID: "3", Keys: []string{"c"}}}
		if got := acquire(t, b, jobs); got != "b,a," {
			t.Errorf("busy: got %q, want b, a and none", got)
		}
		if got := holding(t, b, "a"); got != "" {
			t.Errorf("holders of a: got %q: a refused job holds nothing", got)
		}
	})
}

func TestOddKeysOfLocksAndRatesStayApart(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		ns := newNamespace()
		b := coord.New(rdb, patient(ns))
		var rates []coord.RateJob
		for i, key := range oddKeys() {
			if got, err := b.Acquire(t.Context(), one(strconv.Itoa(i), key), time.Minute); err != nil || got[0] != "" {
				t.Errorf("key %q: got %q, %v: it shares a lock with another", key, got, err)
			}
			rates = append(rates, coord.RateJob{Member: key, Rates: []coord.RateKey{{Name: key, N: 1, Per: time.Minute}}})
		}
		for i, key := range oddKeys() {
			if got := holding(t, b, key); got != strconv.Itoa(i) {
				t.Errorf("key %q: got %q, want %d", key, got, i)
			}
		}
		for range 2 {
			wait, _, err := b.Reserve(t.Context(), rates, 0)
			must(t, err)
			if n := slices.IndexFunc(wait, func(d time.Duration) bool { return d != 0 }); n >= 0 {
				t.Errorf("rate %q waits %v: it shares a rate with another", rates[n].Member, wait[n])
			}
		}
		for _, name := range rest(t, rdb, ns) {
			if tag := name[:strings.Index(name, "}")+1]; tag != "{"+ns+"}" {
				t.Errorf("key %q has the hash tag %q", name, tag)
			}
		}
	})
}

func TestKeysThatAreTooLongAreRefused(t *testing.T) {
	t.Parallel()
	b := coord.New(dial(t, "127.0.0.1:1"), coord.Config{}) // must not be asked
	long := strings.Repeat("k", 256)
	rate := []coord.RateJob{{Member: "1", Rates: []coord.RateKey{{Name: long, N: 1, Per: time.Second}}}}
	_, acquireErr := b.Acquire(t.Context(), one("1", "a", long), time.Second)
	_, holdersErr := b.Holders(t.Context(), long)
	_, _, reserveErr := b.Reserve(t.Context(), rate, 0)
	for what, err := range map[string]error{
		"acquire": acquireErr, "holders": holdersErr, "reserve": reserveErr,
		"renew":     b.RenewLocks(t.Context(), []coord.Member{{Key: long, ID: "1"}}, time.Second),
		"swap":      b.SwapLocks(t.Context(), []coord.Swap{{Key: long, Out: "1"}}, time.Second),
		"write":     b.WriteHolders(t.Context(), map[string][]string{long: nil}, time.Second),
		"unreserve": b.Unreserve(t.Context(), rate),
		"hold":      b.HoldRate(t.Context(), long, time.Second),
	} {
		if err == nil || !strings.Contains(err.Error(), "256 bytes: limit 255") {
			t.Errorf("%s: got %v, want an error that names the limit", what, err)
		}
	}
}

func TestLongBatchesGoInSeveralCalls(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		b := coord.New(rdb, patient(newNamespace()))
		var jobs []coord.LockJob
		var swaps []coord.Swap
		var rates []coord.RateJob
		truth := map[string][]string{}
		for i := range 700 {
			id := strconv.Itoa(i)
			jobs = append(jobs, coord.LockJob{ID: id, Keys: []string{"a" + id, "b" + id}, Limits: []int{1, 2}}, coord.LockJob{ID: "late " + id, Keys: []string{"a" + id}})
			swaps = append(swaps, coord.Swap{Key: "a" + id, Out: id}, coord.Swap{Key: "b" + id, Out: id, In: "next " + id})
			rates = append(rates, coord.RateJob{Member: id, Rates: []coord.RateKey{{Name: "r" + id, N: 1, Per: time.Second}, {Name: "all", N: 1000, Per: time.Second}}})
			truth["many"] = append(truth["many"], id, "x"+id, "y"+id)
		}
		busy, err := b.Acquire(t.Context(), jobs, time.Minute)
		must(t, err)
		for i := range 700 {
			if want := "a" + strconv.Itoa(i); busy[2*i] != "" || busy[2*i+1] != want {
				t.Fatalf("jobs %d and its late one: got %q, want the second refused on %q", i, busy[2*i:2*i+2], want)
			}
		}
		must(t, b.SwapLocks(t.Context(), swaps, time.Minute))
		must(t, b.WriteHolders(t.Context(), truth, time.Minute))
		if got := holding(t, b, "a699") + holding(t, b, "b699"); got != "next 699" {
			t.Errorf("after the swap: got %q", got)
		}
		if holders, err := b.Holders(t.Context(), "many"); err != nil || len(holders) != 2100 {
			t.Errorf("holders: got %d, %v, want 2100", len(holders), err)
		}
		wait, parked, err := b.Reserve(t.Context(), rates, 0)
		if err != nil || len(wait) != 700 || len(parked) != 700 || slices.Max(wait) != 0 {
			t.Errorf("reserve: got %d waits, the longest %v, %v", len(wait), slices.Max(wait), err)
		}
		must(t, b.Unreserve(t.Context(), rates))
	})
}

// Redis' own time: what is held ends by itself, whatever the clock here says.
func TestAGrantThatIsNotRenewedEndsByItself(t *testing.T) {
	t.Parallel()
	b := coord.New(real(t), patient(newNamespace()))
	_, err := b.Acquire(t.Context(), []coord.LockJob{{ID: "1", Keys: []string{"a", "b"}}}, 300*time.Millisecond)
	must(t, err)
	must(t, b.RenewLocks(t.Context(), []coord.Member{{Key: "b", ID: "1"}, {Key: "c", ID: "1"}}, time.Minute))
	eventually(t, 5*time.Second, "the lock is free", func() bool { return acquire(t, b, one("2", "a")) == "" })
	if got := holding(t, b, "b") + "/" + holding(t, b, "c"); got != "1/" {
		t.Errorf("holders: got %q, want the renewed one of b, and nobody of c: renewing adds nobody", got)
	}
	if n := b.Stats().LocksGone; n != 1 {
		t.Errorf("members that were gone: got %d, want 1", n)
	}
}

// 1,000,000 in BenchmarkKeysUsedOnce.
func TestKeysUsedOnceLeaveNothing(t *testing.T) {
	t.Parallel()
	rdb := real(t)
	ns := newNamespace()
	useOnce(t, coord.New(rdb, patient(ns)), 20_000)
	for _, name := range rest(t, rdb, ns) {
		if ttl := rdb.PTTL(t.Context(), name).Val(); ttl == -1 || ttl > 5*time.Second {
			t.Fatalf("key %q lives for %v", name, ttl)
		}
	}
	leftNothing(t, rdb, ns)
}

// useOnce takes n locks and lets every fifth expire, and n/4 rates.
func useOnce(t testing.TB, b *coord.Bus, n int) {
	t.Helper()
	for from := 0; from < n; from += 500 {
		var jobs []coord.LockJob
		var swaps []coord.Swap
		var rates []coord.RateJob
		for i := from; i < from+500; i++ {
			key := fmt.Sprint("k", i)
			jobs = append(jobs, coord.LockJob{ID: key, Keys: []string{key}})
			if i%5 != 0 {
				swaps = append(swaps, coord.Swap{Key: key, Out: key})
			}
			if i%4 == 0 {
				rates = append(rates, coord.RateJob{Member: key, Rates: []coord.RateKey{{Name: key, N: 5, Per: time.Second}}})
			}
		}
		_, err := b.Acquire(t.Context(), jobs, time.Second)
		must(t, err)
		must(t, b.SwapLocks(t.Context(), swaps, time.Second))
		_, _, err = b.Reserve(t.Context(), rates, 0)
		must(t, err)
	}
}

func leftNothing(t testing.TB, rdb *redis.Client, ns string) {
	t.Helper()
	eventually(t, 30*time.Second, "nothing is left", func() bool { return len(rest(t, rdb, ns)) == 0 })
}

func TestWithoutRedisThereIsNoAdvice(t *testing.T) {
	t.Parallel()
	b := coord.New(nil, coord.Config{})
	rates := []coord.RateJob{hundred("1")}
	busy, err := b.Acquire(t.Context(), one("1", "a"), time.Second)
	if err != nil || !slices.Equal(busy, []string{""}) {
		t.Errorf("acquire: got %q, %v, want one grant and no error", busy, err)
	}
	if _, _, err := b.Reserve(t.Context(), rates, 0); !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("reserve: got %v, want ErrUnavailable: the caller has its share of the rate to go by", err)
	}
	holders, err := b.Holders(t.Context(), "a")
	if err != nil || len(holders) != 0 {
		t.Errorf("holders: got %v, %v", holders, err)
	}
	must(t, b.RenewLocks(t.Context(), []coord.Member{{Key: "a", ID: "1"}}, time.Second))
	must(t, b.SwapLocks(t.Context(), []coord.Swap{{Key: "a", Out: "1"}}, time.Second))
	must(t, b.WriteHolders(t.Context(), map[string][]string{"a": {"1"}}, time.Second))
	must(t, b.Unreserve(t.Context(), rates))
	must(t, b.HoldRate(t.Context(), "stripe", time.Second))
	if s := b.Stats(); s != (coord.Stats{}) {
		t.Errorf("stats: got %+v, want none", s)
	}
}
