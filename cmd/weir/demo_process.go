package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// child is the demo's side of a process that it started.
type child struct {
	name   string // "worker A"
	cmd    *exec.Cmd
	orders io.WriteCloser // our end of the pipe: the kernel closes it however we die, and the child ends
	book   *ledger
	stderr tail

	statements atomic.Int64
	refused    atomic.Int64
	tickedAt   atomic.Int64 // local time in ns of the last report of these two

	done chan struct{}
	exit error // set before done is closed
}

// startChild runs this program again as weir demo ROLE NAME. Addresses travel in the environment: everybody can read a
// command line. first is the child's first order; what it reports of jobs goes into book.
func startChild(role, name string, environ []string, first string, book *ledger) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &child{name: strings.TrimSpace(role + " " + name), cmd: exec.Command(self, "demo", role), book: book, done: make(chan struct{})}
	c.cmd.Env = childEnviron(environ)
	c.cmd.Stderr = &c.stderr
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	reports, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go c.listen(reports) // ends with the child; stop and kill wait for it
	return c, c.order(first)
}

// listen takes in what the child reports until its end of the pipe is closed: also what it wrote before it was killed.
func (c *child) listen(reports io.Reader) {
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		c.take(strings.Fields(lines.Text()))
	}
	c.exit = c.cmd.Wait()
	close(c.done)
}

// take understands a report. Anything else is not for us, such as a line that SIGKILL cut.
func (c *child) take(fields []string) {
	if len(fields) != 3 {
		return
	}
	last, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return
	}
	if fields[0] == reportTick {
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			c.statements.Store(n)
			c.refused.Store(last)
			c.tickedAt.Store(time.Now().UnixNano())
		}
		return
	}
	id, err := job.ParseID(fields[1])
	switch {
	case err != nil:
	case fields[0] == reportStart:
		c.book.start(id, time.Unix(0, last))
	case fields[0] == reportRecover:
		c.book.recover(id)
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// order tells the child what to do.
func (c *child) order(word string) error {
	if _, err := io.WriteString(c.orders, word+"\n"); err != nil {
		return c.failure(err)
	}
	return nil
}

// ended reports whether the process is gone.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// failure says why the child cannot go on.
func (c *child) failure(err error) error {
	if c.ended() && c.exit != nil {
		err = c.exit
	}
	if last := c.stderr.String(); last != "" {
		return fmt.Errorf("%s: %w: %s", c.name, err, last)
	}
	return fmt.Errorf("%s: %w", c.name, err)
}

// kill ends the child as a crash would (SIGKILL) and returns when it is gone and all that it said is taken in.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	<-c.done
	return nil
}

// stop asks the child to close, and kills it if it has not within 8 s. It may be called again, and after kill.
func (c *child) stop() error {
	if c.ended() {
		return nil
	}
	asked := c.order(orderStop)
	_ = c.orders.Close() // the child has the order, or is gone
	patience := time.NewTimer(8 * time.Second)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
		return errors.Join(fmt.Errorf("%s did not end in time", c.name), c.kill())
	}
	if asked != nil || c.exit != nil {
		return c.failure(errors.New("did not end in order"))
	}
	return nil
}

// tail keeps the end of what is written to it, for an error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 2048; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(p), nil
}

// lines returns the last three.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return lines[max(len(lines)-3, 0):]
}

// String returns the last lines as one.
func (t *tail) String() string { return strings.Join(t.lines(), " | ") }
