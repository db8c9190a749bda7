package main

import (
	"context"
	"encoding/json"
	"sync"

	asynqlib "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqPeer is asynq on a Redis that keeps nothing on disk, or that syncs each write to it as Postgres does.
type asynqPeer struct {
	label string
	fsync bool
}

func (p asynqPeer) name() string { return p.label }

func (p asynqPeer) open(ctx context.Context, s *servers) (arena, error) {
	rdb := s.plain
	if p.fsync {
		rdb = s.synced
	}
	if err := rdb.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	return &asynqArena{rdb: rdb, producer: asynqlib.NewClientFromRedisClient(rdb), inspector: asynqlib.NewInspectorFromRedisClient(rdb)}, nil
}

type asynqArena struct {
	rdb       redis.UniversalClient
	producer  *asynqlib.Client
	inspector *asynqlib.Inspector
}

// asynqCallers is how many enqueue at once where many jobs are wanted: asynq has no call for several.
const asynqCallers = 32

func (a *asynqArena) enqueue(ctx context.Context, from, n int) error {
	if n == 1 {
		payload, err := json.Marshal(args{N: from})
		if err != nil {
			return err
		}
		_, err = a.producer.EnqueueContext(ctx, asynqlib.NewTask(args{}.Kind(), payload))
		return err
	}
	errs := make(chan error, asynqCallers)
	var wg sync.WaitGroup
	for caller := range asynqCallers {
		wg.Go(func() {
			for i := caller; i < n; i += asynqCallers {
				if err := a.enqueue(ctx, from+i, 1); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func (a *asynqArena) work(ctx context.Context, slots int, handle func(context.Context, int) error) (func() error, error) {
	srv := asynqlib.NewServerFromRedisClient(a.rdb, asynqlib.Config{Concurrency: slots, LogLevel: asynqlib.FatalLevel})
	mux := asynqlib.NewServeMux()
	mux.HandleFunc(args{}.Kind(), func(ctx context.Context, t *asynqlib.Task) error {
		var v args
		if err := json.Unmarshal(t.Payload(), &v); err != nil {
			return err
		}
		return handle(ctx, v.N)
	})
	if err := srv.Start(mux); err != nil {
		return nil, err
	}
	return func() error { srv.Shutdown(); return nil }, nil
}

func (a *asynqArena) finished(context.Context) (int64, error) {
	info, err := a.inspector.GetQueueInfo("default")
	if err != nil {
		return 0, err
	}
	return int64(info.ProcessedTotal), nil
}

// clear takes a new client too: the old one remembers that it has announced its queue.
func (a *asynqArena) clear(ctx context.Context) error {
	a.producer = asynqlib.NewClientFromRedisClient(a.rdb)
	return a.rdb.FlushAll(ctx).Err()
}

func (a *asynqArena) close() {} // the connection is the servers'
