package testenv

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs a package's tests, closes the shared servers, and fails if the tests passed but left goroutines behind that
// opts do not allow for. It ends the process.
func Main(m *testing.M, opts ...goleak.Option) {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: goroutines are left after the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// IgnoreServers is for a goleak check inside a test: it allows for the goroutines that wait for the servers of this
// process.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/weirq/weir/internal/embedded.(*process).reap")
}

func closeShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	var errs []error
	if shared.postgres != nil {
		errs = append(errs, shared.postgres.Close())
		shared.postgres = nil
	}
	if shared.redis != nil {
		errs = append(errs, shared.redis.Close())
		shared.redis = nil
	}
	return errors.Join(errs...)
}
