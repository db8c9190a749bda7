//go:build unix && !linux

package child

import (
	"os"
	"syscall"
)

// selfPath is the program's file.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func becomeSubreaper() {}

func preferAsVictim(int) {}

// ended is what awaitAny has reaped: without waitid the two are one step, and a group's id may be another's for a moment.
var ended struct {
	pid    int
	status syscall.WaitStatus
}

func awaitAny() (pid int, err error) {
	for {
		pid, err = syscall.Wait4(-1, &ended.status, 0, nil)
		if err != syscall.EINTR {
			ended.pid = pid
			return pid, err
		}
	}
}

func collect(pid int) (status syscall.WaitStatus, ok bool) { return ended.status, ended.pid == pid }

func (s *supervisor) killOrphans() int { return 0 } // they do not come to us

func (s *supervisor) sample() {} // memory is not looked at

// Children returns nothing: it is not known.
func Children() []int { return nil }

// RSS returns 0: it is not known.
func RSS() int64 { return 0 }

// SetTitle does nothing.
func SetTitle(string) {}
