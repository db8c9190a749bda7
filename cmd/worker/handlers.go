package main

import (
	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/worker"
)

// register adds the handlers. Those that enqueue further jobs would keep the client in a field.
func register(w *worker.Worker, _ *client.Client) error {
	return demojobs.Register(w, "")
}
