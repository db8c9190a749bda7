package pgstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirq/weir/pkg/job"
)

// ErrUndecided reports that a unique key belongs to a transaction that has not ended in time. Nothing was stored.
var ErrUndecided = errors.New("pgstore: the unique key belongs to a transaction that has not ended")

// Unique makes a job the only one of its kind with a key.
type Unique struct {
	Key     []byte        // a hash; see job.Unique.Hash
	Args    []byte        // a hash of all args, to compare; nil: not said
	For     time.Duration // the key stays at least so long; zero: as long as the job counts
	Waiting bool          // a job that runs does not count
	Replace bool          // one that waits is replaced
}

// Winner is the job whose unique key another wanted. Its id may be the loser's own: then that was stored before.
type Winner struct {
	ID      job.ID
	Differs bool // it has other args
}

// EnqueueUnique is Enqueue for jobs that all have a Unique. It waits for open transactions that have one of the keys, and fails
// with ErrUndecided shortly before the statement's time is over. Losers are among the answer's Duplicates and Winners.
func (s *Store) EnqueueUnique(ctx context.Context, jobs []NewJob) (Enqueued, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	query, args, err := s.EnqueueUniqueSQL(jobs)
	if err != nil {
		return Enqueued{}, err
	}
	var a UniqueAnswer
	if err := s.row(ctx, query, args...).Scan(a.Targets()...); err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %d unique jobs: %w", len(jobs), undecided(Classify(err)))
	}
	return a.Enqueued(jobs)
}

// undecided names the error of a lock that was waited for in vain.
func undecided(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return fmt.Errorf("%w: %w", ErrUndecided, err)
	}
	return err
}

// EnqueueUniqueSQL returns the statement of EnqueueUnique, and its arguments, text and numbers alone, for database/sql
// transactions. UniqueAnswer reads its row.
func (s *Store) EnqueueUniqueSQL(jobs []NewJob) (query string, args []any, err error) {
	rows := make([]uniqueJob, len(jobs))
	for i := range jobs {
		rows[i] = uniqueJobOf(&jobs[i])
	}
	b, err := json.Marshal(rows)
	if err != nil {
		return "", nil, fmt.Errorf("encode %d jobs: %w", len(jobs), err)
	}
	// An error that says what was waited for, before the statement's own bound, which says nothing and costs the connection.
	wait := s.timeout - min(s.timeout/2, time.Second)
	return s.call("enqueue_unique_v1", "db_now_us, inserted, least_ready_us, said, freed", 2), []any{string(b), wait.Milliseconds()}, nil
}

type uniqueJob struct {
	jsonJob
	Known   bool    `json:"known,omitempty"`
	Key     string  `json:"unique_key,omitempty"`
	Args    *string `json:"unique_args,omitempty"`
	For     *int64  `json:"unique_for,omitempty"`
	Waiting bool    `json:"unique_waiting,omitempty"`
	Replace bool    `json:"unique_replace,omitempty"`
}

func uniqueJobOf(j *NewJob) uniqueJob {
	r := uniqueJob{jsonJob: jsonJobOf(j), Known: j.Known}
	if u := j.Unique; u != nil {
		r.Key, r.Args = hex.EncodeToString(u.Key), text(hex.EncodeToString(u.Args))
		r.For, r.Waiting, r.Replace = millis(u.For), u.Waiting, u.Replace
	}
	return r
}

// UniqueAnswer is the row of EnqueueUniqueSQL.
type UniqueAnswer struct {
	now, inserted int64
	least         *int64
	said          string
	freed         *string
}

// Targets returns where the columns are scanned to.
func (a *UniqueAnswer) Targets() []any {
	return []any{&a.now, &a.inserted, &a.least, &a.said, &a.freed}
}

// Enqueued returns what the answer says of jobs, which were sent.
func (a *UniqueAnswer) Enqueued(jobs []NewJob) (Enqueued, error) {
	out, err := ScanEnqueued(a.now, a.inserted, a.least, nil)
	if err != nil {
		return Enqueued{}, err
	}
	var said []struct {
		N        int     `json:"n"`
		Winner   *job.ID `json:"winner"`
		Differs  bool    `json:"differs"`
		Replaced *job.ID `json:"replaced"`
	}
	if err := json.Unmarshal([]byte(a.said), &said); err != nil {
		return Enqueued{}, fmt.Errorf("read the winners of unique keys: %w", err)
	}
	out.Duplicates = make(map[job.ID]bool)
	out.Winners, out.Replaced = make(map[job.ID]Winner), make(map[job.ID]job.ID)
	for _, s := range said {
		id := jobs[s.N].ID
		if s.Winner != nil {
			out.Duplicates[id], out.Winners[id] = true, Winner{*s.Winner, s.Differs}
		}
		if s.Replaced != nil {
			out.Replaced[id] = *s.Replaced
		}
	}
	if a.freed == nil {
		return out, nil
	}
	if err := json.Unmarshal([]byte(*a.freed), &out.Freed); err != nil {
		return Enqueued{}, fmt.Errorf("read the keys of replaced jobs: %w", err)
	}
	return out, nil
}
