//go:build unix && !(linux && amd64)

package chaos_test

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

func startShifted(*exec.Cmd, time.Duration) error {
	return fmt.Errorf("%w on %s/%s", errShift, runtime.GOOS, runtime.GOARCH)
}

func shiftStopped(int, time.Duration) error { return startShifted(nil, 0) }
