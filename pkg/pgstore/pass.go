package pgstore

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Reservation is a waiting job that got its keys and no slot: it is available, and next in line for a while.
type Reservation struct {
	ID      job.ID
	Queue   string
	Kind    string
	ReadyAt time.Time
}

// Passed is what Pass gave away.
type Passed struct {
	Now      time.Time
	Jobs     []job.Row // running now, here
	Missing  []job.Row // running too, but without a log row
	Reserved []Reservation
	Moves    []Move // who got which keys, for Redis
	Again    bool   // a slot was seen: call Pass once more
}

// Pass gives a key's free slots to the oldest jobs that wait for it: it is called after the commit of whatever freed the
// key, blocked a job on it or raised its limit. A job starts here if serves has room for it, else it gets a reservation.
// A zero session takes none.
func (s *Store) Pass(ctx context.Context, session job.ID, key string, serves Serves) (Passed, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	queues, kinds, take, reserve := serves.columns()
	rows, err := s.keyed(ctx, "pass_v1", [16]byte(session), key, queues, kinds, take, reserve)
	if err != nil {
		return Passed{}, err
	}
	return Passed{
		Now: rows.now, Jobs: rows.jobs, Missing: rows.missing, Reserved: rows.reserved, Moves: rows.moves, Again: rows.again,
	}, nil
}
