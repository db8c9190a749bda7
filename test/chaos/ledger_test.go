//go:build unix

package chaos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// What an event says.
const (
	acked   = "acked"   // an enqueue returned success, or its transaction was committed
	refused = "refused" // an enqueue failed and stored nothing
	started = "started" // a handler began
	ended   = "ended"   // a handler returned Err
	noted   = "noted"   // something that a handler did on the way, named in Err
	queried = "queried" // a claim was sent
	closed  = "closed"  // Run returned Err

	unbooked = "unbooked" // the book could not be written: without its oracle a test proves nothing
)

// event is one line of the ledger.
type event struct {
	At      time.Time     `json:"at"`
	What    string        `json:"what"`
	Process string        `json:"process"`
	ID      job.ID        `json:"id,omitzero"`
	Attempt int           `json:"attempt,omitempty"`
	Crashes int           `json:"crashes,omitempty"`
	Fence   int           `json:"fence,omitempty"`
	Took    time.Duration `json:"took,omitempty"`
	Err     string        `json:"err,omitempty"`
}

// ledger is one process' file. A line is one write to a file opened for appending, so it is there entirely or not at all
// when the process is killed, and no death of a server touches it.
type ledger struct {
	file    *os.File
	process string
	began   time.Time
	ahead   time.Duration // this process' wall clock is, of the machine's
}

func openLedger(dir, process string) (*ledger, error) {
	name := filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", process, os.Getpid()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{file: f, process: process, began: time.Now()}, nil
}

// shift says that the process' clock is off, and makes sure that it is: files are dated by the machine's.
func (l *ledger) shift(by time.Duration) error {
	l.ahead = by
	if by == 0 {
		return nil
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if off := time.Since(info.ModTime()); (off - by).Abs() > time.Minute {
		return fmt.Errorf("the clock is ahead by %v, want %v", off, by)
	}
	return nil
}

// note writes an event. Its time is the wall clock at the process' start plus the monotonic time since, so that all
// processes of this machine agree and none goes back.
func (l *ledger) note(e event) {
	e.At, e.Process = l.began.Add(time.Since(l.began)-l.ahead), l.process
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("write ledger: %v", err)) // without its oracle a test proves nothing
	}
}

// account is what all ledgers of a test say, in the order of time.
type account []event

func readLedgers(t *testing.T, dir string) account {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all account
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			// The last line may be read while it is written, half of it on one page and half on the next.
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("read %s: %v", name, err)
			}
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.At.Compare(b.At) })
	return all
}

// of returns the events of one kind; of processes whose name starts with process, if that is given.
func (a account) of(what string, process ...string) account {
	var out account
	for _, e := range a {
		if e.What == what && (len(process) == 0 || strings.HasPrefix(e.Process, process[0])) {
			out = append(out, e)
		}
	}
	return out
}

func (a account) byID() map[job.ID]account {
	m := make(map[job.ID]account)
	for _, e := range a {
		m[e.ID] = append(m[e.ID], e)
	}
	return m
}

// last returns the latest time, zero if there is none.
func (a account) last() (at time.Time) {
	for _, e := range a {
		if e.At.After(at) {
			at = e.At
		}
	}
	return at
}
