// Package coord carries hints between the processes of one namespace over Redis: new jobs wake idle workers, and a
// pause, resume or cancel reaches everyone at once. It also keeps count of locks and rates. It knows no jobs and no SQL.
//
// A message is never an order. Whoever gets one reads the row in Postgres; whoever misses one finds the row by its next
// poll. So Redis may be down, slow, empty, read-only, out of memory or half-open at any moment: hints get lost, work
// does not, and no command waits longer than [Config].Timeout for its answer.
//
//	bus := coord.New(rdb, coord.Config{Namespace: "weir"})
//	go bus.Run(ctx, "web-7/4711", coord.Receiver{OnHint: claimSoon, OnSubscribed: claimNow})
//	err := bus.Register(ctx, "web-7/4711", coord.Idle{Queue: "mail", Free: 10})
//	err = bus.Wake(ctx, coord.Hint{Queue: "mail", Count: 1})
//
// Idle workers stand in a sorted set per queue, the score being their free slots. [Bus.Wake] pops as many as the jobs
// need, fullest first, and publishes to each one's own channel, so that one job wakes one worker of a thousand. A worker
// that died is popped once, heard by nobody, and the next one is taken instead.
//
// Locks are advice as well: [Bus.Acquire] says, before a transaction is spent on it, which jobs need not try for their
// keys; Postgres decides, and [Bus.SwapLocks] and [Bus.WriteHolders] tell Redis what it decided. Rates are the one thing
// that lives here alone: [Bus.Reserve] gives each job the instant at which it may start. All of it expires by itself.
//
// Names of queues, kinds and workers may hold any byte. All Redis keys stand in keys.go and share one hash tag: a
// namespace is one slot of a cluster. A cluster needs Redis 7 (sharded publish and subscribe) and a client that is not
// ReadOnly; a single server or sentinels need 6.2. Every Lua script is a file of the folder lua.
//
// The package is importable, but not covered by Weir's promise of compatibility.
package coord
