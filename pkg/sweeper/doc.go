// Package sweeper keeps a namespace in order: it gives the jobs of dead processes to others, wakes workers when jobs
// come due, fires schedules, ends what has expired, and makes and retires partitions.
//
//	s, err := sweeper.New(c, sweeper.Config{}) // c is a *client.Client
//	err = s.Run(ctx)                           // until ctx ends
//
// Each deployment runs one; any number may run at once, in processes of their own or in workers (worker.Config.Sweep).
// They share no leader: every duty is safe beside itself, works in small batches with a transaction each, and holds no
// connection in between. A sweeper uses at most three connections of the client's pool; in a worker, three of its own.
//
// # Duties
//
// A duty is a synchronous step, [Sweeper.RunDuty] runs it once; Run repeats each on its own ticker.
//
//	recover     1s     jobs of processes whose lease has ended start elsewhere
//	wake        250ms  workers are woken for jobs that come due, and for those whose hint was lost
//	unblock     2s     keys that are free, or whose holder is gone, pass to those who wait for them
//	reconcile   2s     Redis is told who holds the keys that jobs wait for
//	fire        1s     ticks of schedules become jobs, to the tick
//	stragglers  5s     the same for all that has been due for longer, read from the start
//	expire      5s     jobs that could not start in time end as expired
//	rotate      1min   partitions ahead are made, those behind are emptied and dropped
//	uniques     30s    unique keys of jobs that are not live any more are freed
//	reports     1min   checkpoints and progress of jobs that have ended go, with the retention of completed jobs
//	sessions    1min   rows of dead processes are deleted after an hour
//	counts      10s    the depth of each queue is cached in the table counts
//
// # Trust
//
// A sweeper that calls a healthy process dead makes its jobs run twice, so it first doubts itself. It calls nobody dead
// until it has worked without a break for one full lease, the longest of all live sessions, with commits that reached
// the disk: whoever was cut off from the database together with it, or stood still with it, has had time to renew by
// then. PROTOCOL's names of these rules stand in trust.go.
package sweeper
