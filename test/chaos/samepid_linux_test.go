package chaos_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// samePID returns what gives every process the id 1, each in a name space of its own, if this user may make some.
// Otherwise the processes have ids of their own, and share the name of the machine alone.
func samePID(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	probe := exec.Command(self, "-test.run=^$")
	probe.SysProcAttr = attr
	if err := probe.Run(); err != nil {
		t.Logf("process ids differ: this user may not make a name space for them: %v", err)
		return nil
	}
	return func(cmd *exec.Cmd) { cmd.SysProcAttr = attr }
}
