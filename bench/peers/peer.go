package main

import (
	"context"
	"time"
)

// peer is a queue that is measured.
type peer interface {
	name() string
	// open makes an empty arena for it.
	open(ctx context.Context, s *servers) (arena, error)
}

// arena is a peer on empty tables.
type arena interface {
	// enqueue puts jobs from, from+1, … into the queue and returns when they are durable, as far as the peer makes them so:
	// one by the peer's call for a single job, several by its fastest call for many.
	enqueue(ctx context.Context, from, n int) error
	// work starts a worker with so many slots in this process. handle gets the number of the job. stop ends it and waits.
	work(ctx context.Context, slots int, handle func(ctx context.Context, n int) error) (stop func() error, err error)
	// finished returns how many jobs are durably finished now.
	finished(ctx context.Context) (int64, error)
	// clear empties the queue.
	clear(ctx context.Context) error
	close()
}

// inTx is an arena that enqueues in a transaction of the application's.
type inTx interface {
	enqueueInTx(ctx context.Context, n int) error
}

// The peers.
var (
	weir       peer = weirPeer{}
	river      peer = riverPeer{label: "river", cooldown: 0, poll: 0}
	riverTuned peer = riverPeer{label: "river-tuned", cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, workers: 2000}
	asynq      peer = asynqPeer{label: "asynq"}
	asynqFsync peer = asynqPeer{label: "asynq-fsync", fsync: true}
)
