//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/internal/testenv"
)

// nobody is the user of "ordinary user" tests when we are root.
const nobody = 65534

// TestTheDemoAsAProcess builds the program once and runs it as a user does, on private servers.
func TestTheDemoAsAProcess(t *testing.T) {
	t.Parallel()
	bin := buildWeir(t)
	t.Run("JSON is one line that says that nothing was lost", func(t *testing.T) {
		t.Parallel()
		p := startWeir(t, bin, "demo", "--json", "--jobs", "500")
		p.wait(t, 0)
		checkFigures(t, p.out.String(), 500)
	})
	t.Run("it runs as an ordinary user, for a person, in 80 columns", func(t *testing.T) {
		t.Parallel()
		p := newWeir(t, bin, "demo", "--jobs", "60")
		if os.Geteuid() == 0 {
			p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		}
		p.start(t)
		p.wait(t, 0)
		checkSummary(t, p.out.String())
	})
	t.Run("Ctrl-C leaves no process and no file", func(t *testing.T) {
		t.Parallel()
		p := startWeir(t, bin, "demo", "--jobs", "5000")
		p.awaitLine(t, "worker B   20 slots  started")
		p.signal(t, os.Interrupt)
		p.wait(t, 1)
		p.checkGone(t)
	})
	t.Run("SIGKILL leaves no process and no file", func(t *testing.T) {
		t.Parallel()
		p := startWeir(t, bin, "demo", "--jobs", "5000")
		p.awaitLine(t, "worker B   20 slots  started")
		p.signal(t, os.Kill)
		<-p.done
		p.checkGone(t)
	})
	t.Run("dev starts again on its data after SIGKILL", func(t *testing.T) {
		t.Parallel()
		home := openDir(t)
		first := newWeir(t, bin, "dev")
		first.cmd.Dir = home
		first.start(t)
		first.awaitLine(t, "Ctrl-C ends it")
		leave := devTable(t, first.out.String(), "CREATE TABLE kept AS SELECT 42 AS n")
		first.signal(t, os.Kill)
		<-first.done

		second := newWeir(t, bin, "dev")
		second.cmd.Dir = home
		second.start(t)
		second.awaitLine(t, "Ctrl-C ends it")
		if got := devTable(t, second.out.String(), "SELECT n FROM kept"); got != "42" || leave != "" {
			t.Errorf("the data: got %q, want 42", got)
		}
		second.signal(t, os.Interrupt)
		second.wait(t, 0)
		second.checkGone(t)
		first.checkGone(t)
	})
}

func checkFigures(t *testing.T, out string, jobs int) {
	t.Helper()
	if strings.Count(out, "\n") != 1 {
		t.Fatalf("stdout is not one line: %q", out)
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	var f figures
	if err := d.Decode(&f); err != nil {
		t.Fatalf("read %q: %v", out, err)
	}
	if f.Enqueued != jobs || f.Completed != jobs || f.Lost != 0 || f.Recovered < mustHold || f.RunTwice < mustHold {
		t.Errorf("got %s", out)
	}
	if f.JobsPerS <= 0 || f.PickupP50 <= 0 || f.PickupP99 < f.PickupP50 || f.StatementsPerJob <= 0 || f.WALBytesPerJob <= 0 {
		t.Errorf("a figure is missing: %s", out)
	}
	for _, key := range strings.Fields("enqueued completed recovered lost run_twice jobs_per_s pickup_p50_ms pickup_p99_ms statements_per_job wal_bytes_per_job") {
		if !strings.Contains(out, `"`+key+`":`) {
			t.Errorf("no %s in %s", key, out)
		}
	}
}

func checkSummary(t *testing.T, out string) {
	t.Helper()
	for _, want := range []string{
		`schema +weir +created in`, `-> 60 jobs \(kind checksum\)`, `worker [AB] +SIGKILL at \d+ done, [2-9]\d jobs in its hands`,
		`lease \(3 s here, 15 s by default\)`, `\d+ jobs of [AB] recovered`, `all \d+ running again`, `100 % +60 done`,
		`enqueued +60\n`, `completed +60\n`, `lost +0\n`, `recovered +[2-9]\d `, `largest files`, ` lines   [0-9a-f]{6}…   `,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if utf8.RuneCountInString(line) > columns || strings.ContainsAny(line, "\x1b\r") {
			t.Errorf("not a plain line of %d columns: %q", columns, line)
		}
	}
}

// devTable runs a statement on the server whose address weir dev has printed, and returns the first value.
func devTable(t *testing.T, out, sql string) (value string) {
	t.Helper()
	url := regexp.MustCompile(`WEIR_POSTGRES_URL=(\S+)`).FindStringSubmatch(out)
	if url == nil {
		t.Fatalf("no address in\n%s", out)
	}
	pool := testenv.Pool(t, url[1])
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		value = number(int64(n))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return value
}

// buildWeir builds the program into a folder that every user may enter.
func buildWeir(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(openDir(t), "weir")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// openDir returns a temporary folder that every user may enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// weir is a run of the program. What it and its children make is below temp, which is also how they are found.
type weir struct {
	cmd  *exec.Cmd
	temp string
	out  safeBuffer
	err  safeBuffer
	done chan struct{}
}

func newWeir(t *testing.T, bin string, args ...string) *weir {
	t.Helper()
	p := &weir{cmd: exec.Command(bin, args...), temp: openDir(t), done: make(chan struct{})}
	if err := os.Chmod(p.temp, 0o777); err != nil {
		t.Fatal(err)
	}
	p.cmd.Dir = "../../config" // some files, and few
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	for _, line := range os.Environ() {
		if !strings.HasPrefix(line, "WEIR_") && !strings.HasPrefix(line, "TMPDIR=") {
			p.cmd.Env = append(p.cmd.Env, line)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "TMPDIR="+p.temp, "WEIR_DEMO_PACE=1s")
	return p
}

func startWeir(t *testing.T, bin string, args ...string) *weir {
	t.Helper()
	p := newWeir(t, bin, args...)
	p.start(t)
	return p
}

func (p *weir) start(t *testing.T) {
	t.Helper()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state is read by wait
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended unless the test failed
		<-p.done
	})
}

// wait waits for the end and checks the exit code.
func (p *weir) wait(t *testing.T, code int) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(55 * time.Second):
		t.Fatalf("it does not end\n%s\n%s", p.out.String(), p.err.String())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d, want %d\n%s\n%s", got, code, p.out.String(), p.err.String())
	}
}

func (p *weir) awaitLine(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, 40*time.Second, func() bool {
		select {
		case <-p.done:
			t.Fatalf("it ended\n%s\n%s", p.out.String(), p.err.String())
		default:
		}
		return strings.Contains(p.out.String(), text)
	}, "no %q", text)
}

func (p *weir) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// checkGone waits until neither the program, its workers nor its servers are left, nor what they had in temp.
func (p *weir) checkGone(t *testing.T) {
	t.Helper()
	var left struct {
		files     []os.DirEntry
		processes []string
	}
	testenv.Eventually(t, 20*time.Second, func() bool {
		var err error
		left.files, err = os.ReadDir(p.temp)
		left.processes = p.family(t)
		return err == nil && len(left.files) == 0 && len(left.processes) == 0
	}, "something is left: %+v", &left) // a pointer: what is left then, not now
}

// family lists the processes that name temp, as the servers do on their command lines, and those whose address of the
// database is ours: the workers', in their environments.
func (p *weir) family(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		out, err := exec.Command("ps", "axww", "-o", "command=").Output()
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return !strings.Contains(line, p.temp) })
	}
	var left []string
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ")) // another user's: empty
		if both := append(line, env...); bytes.Contains(both, []byte(p.temp)) {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}

// safeBuffer is written by a process and read by a test.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
