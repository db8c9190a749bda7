package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/pkg/job"
)

func write(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func names(in *input) []string {
	var all []string
	for _, f := range in.files {
		all = append(all, f.name)
	}
	return all
}

func TestTheScanTakesReadableRegularFilesAlone(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "x", 0o644)
	write(t, dir, "a.txt", "one\n", 0o644)
	write(t, dir, "sub/b.txt", "longer than a\n", 0o644)
	write(t, dir, ".git/config", "x", 0o644)
	write(t, dir, "closed", "x", 0o000)
	for link, target := range map[string]string{"link": "a.txt", "folder": outside} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	in, err := scan(t.Context(), dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.txt", "sub/b.txt"}
	if os.Geteuid() == 0 {
		want = []string{"a.txt", "closed", "sub/b.txt"} // nothing is closed to root
	}
	if got := names(in); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(in.jobs) != leastJobs {
		t.Errorf("%d jobs, want %d", len(in.jobs), leastJobs)
	}
	if largest := in.largest(1); in.files[largest[0]].name != "sub/b.txt" || in.jobs[largest[0]] != largest[0] {
		t.Errorf("the largest is job %v", largest)
	}
}

func TestJobsLimitOrRepeatTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, dir, name, name, 0o644)
	}
	for jobs, want := range map[int][]int{1: {0}, 2: {0, 1}, 7: {0, 1, 2, 0, 1, 2, 0}} {
		in, err := scan(t.Context(), dir, jobs)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(in.jobs, want) {
			t.Errorf("%d jobs: got %v, want %v", jobs, in.jobs, want)
		}
	}
	if _, err := scan(t.Context(), t.TempDir(), 0); err == nil {
		t.Error("an empty folder is taken")
	}
}

func TestFilesTooLargeToReadInTimeAreLeftOut(t *testing.T) {
	t.Parallel()
	in := &input{files: []file{{name: "huge", size: maxFileBytes + 1}, {name: "large", size: maxRead / 100}, {name: "z", size: 10}}}
	if !in.trim(300) || !slices.Equal(names(in), []string{"z"}) || in.tooBig != 2 || in.bytes != 10 {
		t.Errorf("left %v, %d too big, %d bytes", names(in), in.tooBig, in.bytes)
	}
	in = &input{files: []file{{name: "large", size: maxRead / 100}}}
	if in.trim(300) {
		t.Error("300 times a hundredth of the limit is taken")
	}
}

func TestTheDemoIsPacedWhateverTheNumberOfJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jobs     int
		override string
		each     time.Duration
	}{
		{1, "", time.Second}, {5000, "", 42666666}, {100_000, "", 9600000}, {5000, "3s", 16 * time.Millisecond}, {10, "0s", 0},
	} {
		p, err := newPace(c.jobs, c.override)
		if err != nil || p.each.Truncate(time.Microsecond) != c.each.Truncate(time.Microsecond) {
			t.Errorf("%d jobs, %q: got %v, %v, want %v", c.jobs, c.override, p.each, err, c.each)
		}
	}
	if _, err := newPace(1, "10"); err == nil {
		t.Error("a duration without a unit is taken")
	}
}

func TestTheLedgerKnowsWhatIsStillOpen(t *testing.T) {
	t.Parallel()
	var ids job.IDs
	a, b, c, probe := ids.New(), ids.New(), ids.New(), ids.New()
	l, now := newLedger(), time.Now()
	l.enqueued([]job.ID{a, b, c})
	l.start(probe, now.Add(3*time.Millisecond)) // before its Enqueue has returned
	l.probed(probe, now)
	l.start(a, now)
	l.start(b, now)
	l.end(a, job.Completed)
	l.end(a, job.Completed) // asked twice
	l.start(b, now.Add(time.Second))
	l.end(probe, job.Completed)
	if open := l.open(); !slices.Equal(open, []job.ID{b}) {
		t.Errorf("open: %v, want b", open)
	}
	l.end(b, job.Cancelled)
	if completed, failed := l.ended(); completed != 1 || failed != 1 {
		t.Errorf("%d completed, %d failed; want one each, the probe not among them", completed, failed)
	}
	if n, last := l.since([]job.ID{a, b, c}, now); n != 1 || !last.Equal(now.Add(time.Second)) {
		t.Errorf("%d were started again, at %v", n, last)
	}
	if got := l.pickups(); len(got) != 1 || got[0] != 3*time.Millisecond {
		t.Errorf("pickups %v", got)
	}
	if twice := l.which(func(e *entry) bool { return e.starts > 1 }); !slices.Equal(twice, []job.ID{b}) {
		t.Errorf("started twice: %v", twice)
	}
	if lost := l.which(func(e *entry) bool { return e.end == "" }); !slices.Equal(lost, []job.ID{c}) {
		t.Errorf("lost: %v", lost)
	}
}

func TestADemoThatLosesOrRecoversNothingFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    figures
		want string
	}{
		{figures{Recovered: 20}, ""}, {figures{Recovered: 20, Lost: 2}, "2 jobs were lost"}, {figures{}, "no job of the killed worker"},
	} {
		err := c.f.verdict()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.f, err, c.want)
		}
	}
}

func TestTheVictimHasItsHandsFullOrAllThatIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		jobs    int
		holding [2]bool
		now     standing
		victim  int
		ok      bool
	}{
		{"B is not full yet", 5000, [2]bool{false, true}, standing{completed: 2500, running: [2]int{20, 19}}, 1, false},
		{"B is full", 5000, [2]bool{false, true}, standing{completed: 2500, running: [2]int{90, 20}}, 1, true},
		{"B has all that is left", 5000, [2]bool{false, true}, standing{completed: 4990, running: [2]int{0, 10}}, 1, true},
		{"A was quicker in a small demo", 1, [2]bool{true, true}, standing{running: [2]int{1, 0}}, 0, true},
		{"some wait for a worker", 5, [2]bool{true, true}, standing{running: [2]int{2, 1}}, 0, false},
		{"nothing was claimed", 5, [2]bool{true, true}, standing{}, 1, false},
	} {
		d := &demo{jobs: make([]job.ID, c.jobs), holding: c.holding}
		victim, ok := d.choose(c.now)
		if ok != c.ok || ok && victim != c.victim {
			t.Errorf("%s: got %d, %v", c.name, victim, ok)
		}
	}
}

func TestLinesFitIntoEightyColumns(t *testing.T) {
	t.Parallel()
	if got := utf8.RuneCountInString(bar(100_000, 100_000, 1e6)); got > columns {
		t.Errorf("the bar has %d columns", got)
	}
	var out bytes.Buffer
	s := &screen{out: &out, redraw: true}
	s.progress(1, 2, 3)
	s.say("  a name\x1b[2J with %s", strings.Repeat("ü", 100))
	s.clear()
	lines := strings.Split(out.String(), "\n")
	if want := "\r\x1b[K  a name?[2J with "; !strings.Contains(lines[0], want) || !strings.HasSuffix(lines[0], "ü…") {
		t.Errorf("got %q", lines[0])
	}
	if at := strings.LastIndex(lines[0], "  a name"); utf8.RuneCountInString(lines[0][at:]) != columns {
		t.Errorf("not cut: %q", lines[0])
	}
	if !strings.HasPrefix(lines[1], "  [################......") {
		t.Errorf("the bar is not drawn again: %q", lines[1])
	}
}
