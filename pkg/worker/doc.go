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
//
// Jobs with keys take a longer way: a claim only sees them. admit.go asks Redis, which spares the database a try, and then
// Postgres, which decides: each starts, is blocked on a lock, or waits for a rate (rate_ask.go; rate.go without Redis).
// handover.go ends them and starts the next in their lines in the same statement, pass.go looks once more at every lock
// that was freed or blocked on, advice.go tells Redis what was decided.
package worker
