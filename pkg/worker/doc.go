// Package worker runs jobs: it claims them from Postgres, calls the handlers that the program registered, and writes
// what came of it, fenced, so that nobody's late result counts.
//
//	w, err := worker.New(c, worker.Config{Queues: []worker.Queue{{Name: "default", Slots: 50}}})
//	worker.Handle(w, m.Welcome)
//	err = w.Run(ctx) // until ctx ends, then closes gracefully
//
// A job's way through the files: dispatch.go claims, lanes.go decides what starts next, execute.go calls the handler,
// verdict.go decides what its return means, result.go writes it; session.go keeps the lease meanwhile, wake.go listens
// for hints, close.go gives back what could not be finished.
package worker
