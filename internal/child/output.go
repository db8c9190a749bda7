package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// maxTail is how much of the end of a child's output is kept.
const maxTail = 16 << 10

// maxLine is how much of the last line is kept for an error.
const maxLine = 500

// maxShown is how much of one job's output is passed on. The rest is counted: a job that prints without end fills no disk.
const maxShown = 256 << 10

// Output reads what a child prints, keeps the tail, and passes whole lines on. It never stops reading: a child that prints
// more than anyone wants is not held up.
type Output struct {
	sink io.Writer // nil: nobody wants it
	done chan struct{}

	mu     sync.Mutex
	tail   []byte
	begun  []byte // the beginning of the line that has not ended yet, at most maxLine
	crash  string // the first line with which Go says why a program dies
	line   []byte // begun, not passed on yet
	shown  int    // bytes passed on since the last reset
	hidden int64
}

// NewOutput reads r, which it takes over, until its end. Lines go to sink, which may be nil.
func NewOutput(r *os.File, sink io.Writer) *Output {
	o := &Output{sink: sink, done: make(chan struct{})}
	go o.run(r)
	return o
}

func (o *Output) run(r *os.File) {
	defer close(o.done)
	defer func() { _ = r.Close() }() // only read
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			o.take(buf[:n])
		}
		if err != nil {
			o.mu.Lock()
			o.flushLocked()
			o.mu.Unlock()
			return
		}
	}
}

// crashes are the beginnings of the lines that say why a Go program dies; what follows them is all its goroutines.
var crashes = [][]byte{[]byte("panic: "), []byte("fatal error: "), []byte("runtime: out of memory"), []byte("SIGSEGV: ")}

func (o *Output) take(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watchLocked(p)
	if o.tail = append(o.tail, p...); len(o.tail) > 4*maxTail {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-maxTail:]...)
	}
	if o.sink == nil {
		return
	}
	if o.shown >= maxShown {
		o.hidden += int64(len(p))
		return
	}
	o.line = append(o.line, p...)
	end := bytes.LastIndexByte(o.line, '\n') + 1
	if end == 0 && len(o.line) < maxTail {
		return
	}
	if end == 0 {
		end = len(o.line)
	}
	o.passLocked(o.line[:end])
	o.line = append(o.line[:0], o.line[end:]...)
}

// watchLocked looks for the line that says why a program dies. It looks at whole lines: Go writes "panic: " and what
// follows it apart, and they may come in two reads.
func (o *Output) watchLocked(p []byte) {
	if crashLine(p) != "" {
		o.begun = o.begun[:0] // in the middle of a line that the program has not ended
	}
	for more := true; more && o.crash == ""; {
		var line []byte
		line, p, more = bytes.Cut(p, []byte("\n"))
		o.begun = append(o.begun, line[:min(len(line), maxLine-len(o.begun))]...)
		if more {
			o.crash = crashLine(o.begun)
			o.begun = o.begun[:0]
		}
	}
}

// crashLine returns line if it says why a program dies.
func crashLine(line []byte) string {
	for _, start := range crashes {
		if bytes.HasPrefix(line, start) {
			return string(line)
		}
	}
	return ""
}

func (o *Output) passLocked(p []byte) {
	o.shown += len(p)
	_, _ = o.sink.Write(p) // a log that cannot be written is no reason to stop the job
}

func (o *Output) flushLocked() {
	if o.sink == nil {
		return
	}
	if len(o.line) > 0 {
		o.passLocked(append(o.line, '\n'))
		o.line = o.line[:0]
	}
	if o.hidden > 0 {
		o.passLocked(fmt.Appendf(nil, "(%d more bytes of output are not shown)\n", o.hidden))
		o.hidden = 0
	}
}

// Reset forgets what was printed: a new job begins.
func (o *Output) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushLocked()
	o.tail, o.begun, o.crash, o.shown = o.tail[:0], o.begun[:0], "", 0
}

// Await waits until the child's output has ended, at most limit: what left the child's group may hold it open.
func (o *Output) Await(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}

// Tail returns the end of what was printed, at most 16 KiB.
func (o *Output) Tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail
	if len(tail) > maxTail {
		tail = tail[len(tail)-maxTail:]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(tail), "\uFFFD"))
}

// LastLine returns why a Go program died if it said so, else the last line that is not empty; at most 500 bytes.
func (o *Output) LastLine() string {
	tail := o.Tail()
	o.mu.Lock()
	defer o.mu.Unlock()
	line := o.crash
	if line == "" {
		line = crashLine(o.begun) // it may die before the line's end
	}
	if line == "" {
		line = strings.TrimSpace(tail[strings.LastIndexByte(tail, '\n')+1:])
	}
	return strings.ToValidUTF8(line[:min(len(line), maxLine)], "\uFFFD")
}

// ErrTooLong reports that a child printed more than it may.
var ErrTooLong = errors.New("child: output is too long")

// ReadAll reads r, which it takes over, to its end: at most limit bytes, else ErrTooLong at once.
func ReadAll(r *os.File, limit int) ([]byte, error) {
	defer func() { _ = r.Close() }() // only read; a child that goes on printing is told by the pipe
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if len(out) > limit {
		return nil, ErrTooLong
	}
	return out, err
}
