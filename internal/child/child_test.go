//go:build unix

package child_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirq/weir/internal/child"
)

func TestMain(m *testing.M) {
	if child.Role() { // the launcher executes this program again for its supervisor
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// start runs a shell script whose output is captured.
func start(t *testing.T, l *child.Launcher, script string, tied bool) (*child.Process, *child.Output) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Start(t.Context(), child.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: child.BaseEnv(nil), Files: []*os.File{null, w, w}, Tied: tied,
	})
	_, _ = w.Close(), null.Close() // the child has its copies
	out := child.NewOutput(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, out
}

func await(t *testing.T, p *child.Process) child.Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the child does not end")
	}
	return p.Exit()
}

func TestAChildsEndIsTold(t *testing.T) {
	l := new(child.Launcher)
	defer l.Close()
	for script, want := range map[string]string{
		"exit 0": "exited with status 0", "exit 7": "exited with status 7", "kill -9 $$": "was ended by a signal: killed",
	} {
		p, _ := start(t, l, script, true)
		if got := await(t, p).String(); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	_, err := l.Start(t.Context(), child.Spec{Path: "/nowhere/at/all", Args: []string{"x"}})
	var refused *child.StartError
	if !errors.As(err, &refused) || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
}

func TestAChildRunsWhereItsStarterDoes(t *testing.T) {
	l := new(child.Launcher)
	defer l.Close()
	want, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p, out := start(t, l, "pwd", false)
	await(t, p)
	out.Await(time.Second)
	if got := out.Tail(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAChildInheritsNoDescriptor(t *testing.T) {
	l := new(child.Launcher)
	defer l.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	for _, f := range []*os.File{r, w} { // as a library in C leaves them
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETFD, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	p, out := start(t, l, "ls /dev/fd/ | grep -c .", false)
	await(t, p)
	out.Await(time.Second)
	if got := out.Tail(); got != "4" { // 0, 1, 2 and the folder that ls reads
		t.Errorf("it has %s descriptors", got)
	}
}

func TestTheEndOfALauncherIsTheEndOfItsChildren(t *testing.T) {
	l := new(child.Launcher)
	p, _ := start(t, l, "trap '' TERM; sleep 600 & wait", true)
	supervisor := l.Supervisor()
	l.Close()
	await(t, p)
	for _, pid := range []int{p.Pid, supervisor} {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	if _, err := l.Start(context.Background(), child.Spec{Path: "/bin/true", Args: []string{"true"}}); err == nil {
		t.Error("a closed launcher starts children")
	}
}

func TestFramesArriveAsTheyWereSent(t *testing.T) {
	ours, theirs, err := child.Pair()
	if err != nil {
		t.Fatal(err)
	}
	other, err := child.NewConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(strings.Repeat("\x00<>&\xff", 100_000))
	sent := make(chan error, 1)
	go func() {
		sent <- errors.Join(ours.Send('a', map[string]int{"n": 1}, body), ours.Send('b', nil, nil))
		ours.Close()
	}()
	f, err := other.Receive()
	if err != nil || f.Kind != 'a' || string(f.Header) != `{"n":1}` || string(f.Body) != string(body) {
		t.Errorf("got %c %s and %d bytes, %v", f.Kind, f.Header, len(f.Body), err)
	}
	if f, err = other.Receive(); err != nil || f.Kind != 'b' || len(f.Body) != 0 {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err = other.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	other.Close()
}

func TestOutputKeepsTheTailAndTheReason(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "one\ntwo\n\n": "two", "x\npanic: no\n\ngoroutine 1 [running]:\nmain.f()\n": "panic: no",
		"fatal error: all\nmore\n": "fatal error: all", "not a panic: here\nlast": "last", strings.Repeat("y", 9999): strings.Repeat("y", 500),
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out := child.NewOutput(r, nil)
		_, _ = fmt.Fprint(w, text)
		_ = w.Close() // the end of the output
		out.Await(10 * time.Second)
		if got := out.LastLine(); got != want {
			t.Errorf("%.40q: got %q, want %q", text, got, want)
		}
	}
}

// Go's runtime writes "panic: ", the text and the end of the line apart.
func TestTheReasonIsFoundInAnyPieces(t *testing.T) {
	for name, pieces := range map[string][]string{
		"apart":                        {"x\n", "panic: ", "no", "\n", "\ngoroutine 1 [running]:\n", "main.f()\n"},
		"in a word":                    {"x\npan", "ic: no\ngoroutine"},
		"behind a line without an end": {"x\n50%", "panic: ", "no", "\n\ngoroutine 1"},
		"unended":                      {"x\nfatal er", "ror: ", "no"},
		"both":                         {"x\n50%", "panic: ", "no"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out := child.NewOutput(r, nil)
		all := ""
		for _, piece := range pieces {
			_, _ = fmt.Fprint(w, piece)
			all += piece
			for until := time.Now().Add(10 * time.Second); out.Tail() != strings.TrimSpace(all) && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
		}
		_ = w.Close() // the end of the output
		out.Await(10 * time.Second)
		if got := out.LastLine(); got != "panic: no" && got != "fatal error: no" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func ExampleLauncher() {
	l := new(child.Launcher)
	defer l.Close()
	p, err := l.Start(context.Background(), child.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}})
	if err != nil {
		panic(err)
	}
	<-p.Done()
	fmt.Println(p.Exit())
	// Output: exited with status 3
}
