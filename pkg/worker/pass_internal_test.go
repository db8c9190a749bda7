package worker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirq/weir/pkg/job"
)

func TestAKeyIsOwedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	var p passes
	p.init()
	if !p.idle() {
		t.Error("something is owed at the beginning")
	}
	p.owe("a", "b", "a")
	p.owe("b", "c")
	var got [][]string
	for {
		keys, _ := p.next()
		if len(keys) == 0 {
			break
		}
		if p.idle() {
			t.Errorf("idle while %s are being looked at", keys)
		}
		got = append(got, keys)
		if len(got) == 1 {
			p.owe("a") // freed once more while it is being looked at: that needs another look
		}
	}
	if fmt.Sprint(got) != "[[a b c] [a]]" || !p.idle() {
		t.Errorf("looked at %v, idle %v", got, p.idle())
	}
}

func TestAKeyThatCannotBeLookedAtIsLeftToTheSweeperInTheEnd(t *testing.T) {
	t.Parallel()
	var p passes
	p.init()
	p.owe("a")
	tries := 0
	for {
		keys, n := p.next()
		if len(keys) == 0 {
			break
		}
		tries++
		p.again(keys[0], n[0]+1)
	}
	if tries != passTries {
		t.Errorf("%d tries, want %d", tries, passTries)
	}
}

func TestOwedKeysAreBounded(t *testing.T) {
	t.Parallel()
	var p passes
	p.init()
	for n := range maxOwed + 10 {
		p.owe(fmt.Sprint(n))
	}
	if len(p.order) != maxOwed {
		t.Errorf("%d are owed", len(p.order))
	}
}

func TestAFlushWaitsForKeysButNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p passes
		p.init()
		p.owe("a")
		begun := time.Now()
		p.flush(begun.Add(time.Second))
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it waited %v for a key that nobody looks at", took)
		}
		go func() {
			time.Sleep(time.Second)
			for keys := []string{""}; len(keys) > 0; {
				keys, _ = p.next()
			}
		}()
		begun = time.Now()
		p.flush(begun.Add(time.Minute))
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it waited %v", took)
		}
	})
}

// A comparison with the database waits for the statements that had begun before it, not for later ones.
func TestAComparisonWaitsForWhatMayBeHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var k takes
		k.init()
		if !k.settle(time.Second) {
			t.Error("it waits for nothing")
		}
		first := k.begin()
		go func() {
			time.Sleep(300 * time.Millisecond)
			k.begin() // does not end
			time.Sleep(200 * time.Millisecond)
			k.end(first)
		}()
		begun := time.Now()
		if !k.settle(time.Second) || time.Since(begun) != 500*time.Millisecond {
			t.Errorf("it waited %v", time.Since(begun))
		}
		begun = time.Now()
		if k.settle(time.Second) || time.Since(begun) != time.Second {
			t.Errorf("it waited %v for one that does not end", time.Since(begun))
		}
	})
}

func TestLocksComeBeforeRates(t *testing.T) {
	t.Parallel()
	rate := job.Rate("r", 1, time.Second)
	for name, c := range map[string]struct {
		keys  []job.Key
		holds bool
		want  string
	}{
		"no keys":         {nil, false, "[]"},
		"rates alone":     {[]job.Key{rate}, false, "[]"},
		"a lock":          {[]job.Key{job.Mutex("a")}, true, "[a]"},
		"locks and rates": {[]job.Key{job.Mutex("a"), job.Limit("b", 2), rate}, true, "[a b]"},
	} {
		x := &task{row: job.Row{Keys: c.keys}}
		if got := fmt.Sprint(locks(&x.row)); got != c.want || x.holdsKeys() != c.holds {
			t.Errorf("%s: %s, holds %v", name, got, x.holdsKeys())
		}
	}
}
