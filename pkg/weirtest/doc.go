// Package weirtest tests programs that use Weir, in four sizes.
//
// [RequireEnqueued] looks whether a job was enqueued, in the test's own transaction, which may be rolled back afterwards:
//
//	j := weirtest.RequireEnqueued[mail.Welcome](t, tx)
//
// [Recorder] takes the place of a client where there is no database:
//
//	var rec weirtest.Recorder
//	err := signup(ctx, &rec)
//	j := weirtest.RequireEnqueued[mail.Welcome](t, &rec)
//
// [Execute] calls a handler the way a worker does, with its payload encoded and decoded, middleware, timeout, panics and
// all that its return means, and without any server:
//
//	r := weirtest.Execute(t, m.Welcome, mail.Welcome{UserID: 7})
//	r.RequireCompleted(t)
//
// [Start] gives a queue with a schema of its own, for tests of jobs that enqueue jobs:
//
//	q := weirtest.Start(t)
//	worker.Handle(q.Worker, m.Welcome)
//	n := q.Drain(t, weirtest.WithDelayed)
package weirtest
