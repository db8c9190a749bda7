package coord

// White-box: the codec is not exported, and its bounds and its robustness against any input are worth a fuzz target.

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func FuzzHint(f *testing.F) {
	f.Add("mail", "mail.welcome", 3, 0, int64(1_790_000_000_123_456), false)
	f.Add("", "", 0, 16, int64(0), true)
	f.Add("{a}:\n 3", "\xff\x00", 1_000_000_000, 1, int64(-1), true)
	f.Add(strings.Repeat("q", 128), strings.Repeat("k", 128), 1, 2, int64(1)<<62, false)
	f.Fuzz(func(t *testing.T, queue, kind string, count, hops int, micros int64, early bool) {
		if len(queue) > maxName || count < 0 || count > maxCount || hops < 0 || hops > maxCount {
			t.Skip()
		}
		want := Hint{Queue: queue, Kind: kind, Count: count, Hops: hops, ReadyAt: time.UnixMicro(micros).UTC(), Early: early}
		message := "h" + strconv.Itoa(count) + hintBody(want)
		if len(message) > maxMessage {
			t.Fatalf("message of %d bytes: %q", len(message), message)
		}
		got, err := parseHint(message)
		if err != nil {
			t.Fatalf("%q: %v", message, err)
		}
		if got.Kind == "" && len(queue)+len(kind) > 128 {
			want.Kind = ""
		}
		if got != want && !want.ReadyAt.IsZero() {
			t.Errorf("%q: got %+v, want %+v", message, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("h3 0 g4xk2y1abc 4 12 mailmail.welcome")
	f.Add("h3 0  4 12 mailmail.welcome and what a later release adds")
	f.Add("c5 0 4 0 pausemail")
	f.Add("h99999999999 0  1 1 ab")
	f.Add("h1 0  9 9 ab")
	f.Fuzz(func(t *testing.T, message string) {
		if h, err := parseHint(message); err == nil && len(h.Queue) <= maxName {
			again, err := parseHint("h" + strconv.Itoa(h.Count) + hintBody(h))
			if err != nil || again.Queue != h.Queue || !again.ReadyAt.Equal(h.ReadyAt) && !h.ReadyAt.IsZero() {
				t.Errorf("%q: read as %+v, then as %+v, %v", message, h, again, err)
			}
		}
		if c, err := parseControl(message); err == nil && len(controlMessage(c)) <= maxMessage && len(c.Kind) < 40 && len(c.Queue) < 40 {
			if again, err := parseControl(controlMessage(c)); err != nil || again != c {
				t.Errorf("%q: read as %+v, then as %+v, %v", message, c, again, err)
			}
		}
	})
}

func TestTheZeroTimeStaysZero(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		got, err := parseHint("h1" + hintBody(Hint{Queue: "q", Early: early}))
		if err != nil || !got.ReadyAt.IsZero() || got.Early != early {
			t.Errorf("got %+v, %v, want the zero time and early %v", got, err, early)
		}
	}
}

func TestOfMergedHintsTheLeastTimeCounts(t *testing.T) {
	t.Parallel()
	early, late := time.UnixMicro(1), time.UnixMicro(2)
	got := merge([]Hint{{Queue: "b"}, {Queue: "a", Count: 2, ReadyAt: late}, {Queue: "b", Kind: "k"}, {Queue: "a", ReadyAt: early, Hops: 3}})
	want := []Hint{{Queue: "a", Count: 3, ReadyAt: early, Hops: 3}, {Queue: "b", Count: 1}, {Queue: "b", Kind: "k", Count: 1}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("hint %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
	if got := merge([]Hint{{Queue: "a"}, {Queue: "a", Early: true}}); len(got) != 1 || !got[0].Early {
		t.Errorf("one of two hints is early: got %+v, want one early hint", got)
	}
	unknown := merge([]Hint{{Queue: "a", ReadyAt: early}, {Queue: "a"}})
	if !unknown[0].ReadyAt.IsZero() {
		t.Error("a time that is not known must make the receiver look at everything")
	}
}
