//go:build unix && !linux

package chaos_test

import (
	"os/exec"
	"testing"
)

// samePID does nothing where there are no name spaces for process ids.
func samePID(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	return nil
}
