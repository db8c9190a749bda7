//go:build !unix

package child

import (
	"context"
	"os"
)

// Supported reports whether this system has what child processes need.
const Supported = false

// Launcher starts nothing here.
type Launcher struct{}

// Process is a child; there are none.
type Process struct{ Pid int }

// Done returns nil.
func (p *Process) Done() <-chan struct{} { return nil }

// Exit returns the zero Exit.
func (p *Process) Exit() Exit { return Exit{} }

// Terminate does nothing.
func (p *Process) Terminate() {}

// Kill does nothing.
func (p *Process) Kill() {}

// Start returns a *StartError with ErrUnsupported.
func (l *Launcher) Start(_ context.Context, spec Spec) (*Process, error) {
	return nil, &StartError{spec.Path, ErrUnsupported}
}

// Supervisor returns 0.
func (l *Launcher) Supervisor() int { return 0 }

// Close does nothing.
func (l *Launcher) Close() {}

// BaseEnv returns nothing.
func BaseEnv([]string) []string { return nil }

// ChildEnv returns env.
func ChildEnv(env []string) []string { return env }

// Role returns false: no process is a child.
func Role() bool { return false }

// Attach returns ErrUnsupported.
func Attach() (*Conn, error) { return nil, ErrUnsupported }

// Pair returns ErrUnsupported.
func Pair() (*Conn, *os.File, error) { return nil, nil, ErrUnsupported }

// EndGroup ends this process.
func EndGroup() { os.Exit(1) }

// Children returns nothing.
func Children() []int { return nil }

// RSS returns 0.
func RSS() int64 { return 0 }

// SetTitle does nothing.
func SetTitle(string) {}
