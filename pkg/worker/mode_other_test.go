//go:build !unix

package worker_test

import "github.com/weirq/weir/pkg/worker"

// buildChild is never called: there are no children here.
func buildChild([]string) (*worker.Worker, func(), error) { return nil, nil, worker.ErrNoChildren }
