package job

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"
	"time"
)

// White-box: the clock and the entropy of a generator are not for its users to choose.

var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// filled is an entropy source that returns one byte for ever.
type filled byte

func (f filled) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(f)
	}
	return len(b), nil
}

// wantRising draws ids at the instants that clock gives and fails the test unless they rise. It returns the last.
func wantRising(t *testing.T, g *IDs, n int, clock func(i int) time.Time) ID {
	t.Helper()
	var last ID
	for i := range n {
		id := g.at(clock(i))
		if i > 0 && bytes.Compare(last[:], id[:]) >= 0 {
			t.Fatalf("id %d is %s after %s, want a greater one", i, id, last)
		}
		last = id
	}
	return last
}

func stuck(int) time.Time { return noon }

func TestIDsRiseWhileTheClockStandsStill(t *testing.T) {
	t.Parallel()
	var g IDs
	if last := wantRising(t, &g, 100_000, stuck); !last.Time().Equal(noon) {
		t.Errorf("got an id of %v, want one of the millisecond that the clock shows, %v", last.Time(), noon)
	}
}

func TestIDsRiseWhenTheClockGoesBackFiveMilliseconds(t *testing.T) {
	t.Parallel()
	var g IDs
	last := wantRising(t, &g, 10_000, func(i int) time.Time {
		if i >= 5_000 {
			return noon.Add(-5 * time.Millisecond)
		}
		return noon
	})
	if !last.Time().Equal(noon) {
		t.Errorf("after the clock went back: got an id of %v, want one that stays at %v", last.Time(), noon)
	}
	if id := g.at(noon.Add(time.Millisecond)); !id.Time().Equal(noon.Add(time.Millisecond)) {
		t.Errorf("after the clock caught up: got an id of %v, want one of the clock", id.Time())
	}
}

func TestIDsRiseWhateverTheEntropyIs(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]io.Reader{
		"all ones":                         filled(0xff),
		"all zeros":                        filled(0),
		"errors":                           iotest.ErrReader(errors.New("no entropy")),
		"three bytes, then errors":         io.LimitReader(filled(0xff), 3),
		"one byte a read":                  iotest.OneByteReader(filled(0xff)),
		"good for a while, then it errors": io.LimitReader(rand.Reader, 5_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := IDs{rand: source}
			start := time.Now()
			wantRising(t, &g, 20_000, func(i int) time.Time { return noon.Add(time.Duration(i/10_000) * time.Millisecond) })
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("20,000 ids took %v, want no loop for want of entropy", took)
			}
		})
	}
}

func TestUsedUpBitsBorrowTheNextMillisecondAtOnce(t *testing.T) {
	t.Parallel()
	fastest := time.Hour // of several: a busy machine may stop any one of them for a while
	for range 20 {
		g := IDs{rand: filled(0xff)}
		g.at(noon)
		g.hi, g.lo = math.MaxUint16, math.MaxUint64-1 // one short of the end
		start := time.Now()
		last := wantRising(t, &g, 3, stuck)
		fastest = min(fastest, time.Since(start))
		if want := noon.Add(time.Millisecond); !last.Time().Equal(want) {
			t.Fatalf("got an id of %v, want one of the next millisecond, %v", last.Time(), want)
		}
		if id := g.at(noon); !id.Time().Equal(noon.Add(time.Millisecond)) {
			t.Fatalf("got an id of %v while the clock is behind, want it to stay in the borrowed millisecond", id.Time())
		}
	}
	// Neither a wait for the clock nor a search: it takes microseconds.
	if fastest > 5*time.Millisecond {
		t.Errorf("three ids at the end of a millisecond took %v, want at most 5 ms", fastest)
	}
}

func TestTheLastOfTheBitsIsUsedBeforeAMillisecondIsBorrowed(t *testing.T) {
	t.Parallel()
	g := IDs{rand: filled(0)}
	g.at(noon)
	g.hi, g.lo = math.MaxUint16, math.MaxUint64-1
	if id := g.at(noon); !id.Time().Equal(noon) || g.lo != math.MaxUint64 {
		t.Errorf("got an id of %v, want the last one of %v", id.Time(), noon)
	}
	if id := g.at(noon); !id.Time().Equal(noon.Add(time.Millisecond)) {
		t.Errorf("got an id of %v, want one of the next millisecond", id.Time())
	}
}

func TestACarryReachesTheUpperBits(t *testing.T) {
	t.Parallel()
	g := IDs{rand: filled(0)}
	g.at(noon)
	g.hi, g.lo = 41, math.MaxUint64
	if g.at(noon); g.hi != 42 || g.lo != 0 {
		t.Errorf("got upper bits %d and lower bits %d, want 42 and 0", g.hi, g.lo)
	}
}

func TestAMillisecondNeverStartsNearItsEnd(t *testing.T) {
	t.Parallel()
	g := IDs{rand: filled(0xff)}
	if id := g.at(noon); id[6] != 0x7f || id[7] != 0xff {
		t.Errorf("got random bits that start with %x, want the top bit clear and the others as drawn", id[6:8])
	}
}

func TestAClockBefore1970CountsAs1970(t *testing.T) {
	t.Parallel()
	var g IDs
	last := wantRising(t, &g, 1000, func(i int) time.Time { return time.Unix(-int64(i)*1e6, 0) })
	if !last.Time().Equal(time.UnixMilli(1)) && !last.Time().Equal(time.UnixMilli(0)) {
		t.Errorf("got an id of %v, want one of 1970", last.Time())
	}
}

func TestStepsBetweenNeighboursAreRandom(t *testing.T) {
	t.Parallel()
	var g IDs
	seen := make(map[uint64]bool)
	for range 100 {
		g.at(noon)
		before := g.lo
		g.at(noon)
		step := g.lo - before
		if step < 1 || step > 1<<32 {
			t.Fatalf("got a step of %d, want 1 to 2^32", step)
		}
		seen[step] = true
	}
	if len(seen) < 90 { // that many equal among 2^32 do not happen
		t.Errorf("got %d different steps in 100, want them random", len(seen))
	}
}
