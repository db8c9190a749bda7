package child

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Marker is the variable that tells a process of our own program what it was started for. It is taken out of the
// environment by whoever reads it: what such a process starts in turn is none of it.
const Marker = "WEIR_CHILD"

// What Marker says.
const (
	roleSupervisor = "supervisor"
	roleChild      = "child"
)

// Cookie is the variable by which a process that left its group is known as some child's.
const Cookie = "WEIR_CHILD_COOKIE"

// ErrUnsupported reports that this system has no process groups as Weir needs them.
var ErrUnsupported = errors.New("child: child processes need Unix")

// Spec says what to start.
type Spec struct {
	Path  string   // file to execute; empty means our own program
	Args  []string // with the name that is shown first
	Env   []string // the whole environment
	Dir   string   // empty means ours
	Files []*os.File
	// Files become the descriptors 0, 1, 2, … of the child. They stay the caller's to close.

	// MaxRSS is how many bytes of memory the child and what it started may hold resident before they are killed. It is
	// sampled, on Linux alone. Zero means any number.
	MaxRSS int64
	// Tied kills the child by the kernel should the supervisor die. For programs that read no pipe of ours; Linux alone.
	Tied bool
}

// Exit is how a child ended.
type Exit struct {
	Code     int            // meaningful if Signal is 0
	Signal   syscall.Signal // 0: it exited
	Exceeded int64          // resident bytes for which it was killed; 0: not for that
	Lost     bool           // the supervisor was killed: nobody knows
}

// String says it in words, as in "exited with status 3".
func (e Exit) String() string {
	switch {
	case e.Lost:
		return "was lost: the supervisor of the children was killed"
	case e.Exceeded > 0:
		return fmt.Sprintf("was killed: it held %d MiB of memory", e.Exceeded>>20)
	case e.Signal != 0:
		return "was ended by a signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exited with status %d", e.Code)
}

// StartError reports that a child could not be started: no attempt was made.
type StartError struct {
	Path string
	Err  error // a syscall.Errno where the kernel refused
}

func (e *StartError) Error() string { return "start " + e.Path + ": " + e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }
