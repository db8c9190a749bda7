package pgstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// What a row of the answer of admit_v1, pass_v1 or finish_keyed_v1 says.
const (
	keyedStarted   = 1
	keyedBlocked   = 2
	keyedThrottled = 3
	keyedLeft      = 4
	keyedFreed     = 5
	keyedHolders   = 6
	keyedReserved  = 7
	keyedAccepted  = 8
	keyedMoved     = 9
	keyedEnd       = 10
	keyedEmptied   = 11
)

// keyedColumns are those of the type weir.keyed_v1.
const keyedColumns = `what, id, kind, queue, priority, attempt, max_attempts, crashes, fence, ready_at, claimed_at, expires_at,
 missing, payload, enqueued_at, scheduled_at, timeout_ms, backoff, tags, metadata, trace, parent_id,
 keys, key_limits, rates, mode, key, other, others, again, db_now`

// keyedAnswer is what these functions answer, sorted by what it says.
type keyedAnswer struct {
	now       time.Time
	jobs      []job.Row
	missing   []job.Row
	blocked   []Blocked
	throttled []job.ID
	left      []Waiting
	freed     []string
	holders   map[string][]job.ID
	reserved  []Reservation
	accepted  []job.ID
	moves     []Move
	again     bool
}

// keyedRow is one row of the answer.
type keyedRow struct {
	claimRow
	what   int16
	rates  []string
	key    pgtype.Text
	other  pgtype.UUID
	others [][16]byte
	again  pgtype.Bool
}

func (r *keyedRow) targets() []any {
	t := append([]any{&r.what}, r.claimRow.targets()[:loggedColumns]...)
	return append(t, &r.keys, &r.limits, &r.rates, &r.mode, &r.key, &r.other, &r.others, &r.again, &r.now)
}

func (r *keyedRow) job() job.Row {
	row := r.claimRow.job()
	row.Keys = append(row.Keys, ratesOf(r.rates)...)
	return row
}

// locksOf returns a row's locks as the job has them. NULL limits are those of mutexes.
func locksOf(names []string, limits []int32) []job.Key {
	if len(names) == 0 {
		return nil
	}
	keys := make([]job.Key, 0, len(names))
	for i, name := range names {
		n := 1
		if i < len(limits) {
			n = int(limits[i])
		}
		keys = append(keys, job.Limit(name, n))
	}
	return keys
}

// ratesOf reads rates as they are stored: "N PERIOD_MS WEIGHT" with slashes between, a space and the name.
func ratesOf(rates []string) []job.Key {
	var keys []job.Key
	for _, text := range rates {
		var n, per, weight int
		numbers, name, _ := strings.Cut(text, " ")
		if _, err := fmt.Sscanf(numbers, "%d/%d/%d", &n, &per, &weight); err != nil {
			continue // a row edited by hand
		}
		keys = append(keys, job.Rate(name, n, time.Duration(per)*time.Millisecond).Weight(weight))
	}
	return keys
}

// keyed calls a function that answers rows of weir.keyed_v1 and reads the whole answer before it returns anything: rows
// reach the client before the commit.
func (s *Store) keyed(ctx context.Context, function string, args ...any) (keyedAnswer, error) {
	verb := strings.TrimSuffix(function, "_v1")
	rows, err := s.query(ctx, s.call(function, keyedColumns, len(args)), args...)
	if err != nil {
		return keyedAnswer{}, fmt.Errorf("%s: %w", verb, Classify(err))
	}
	out, err := readKeyed(rows)
	if err != nil {
		return keyedAnswer{}, fmt.Errorf("%s: %w", verb, Classify(err))
	}
	if err := s.addKept(ctx, &out.jobs, &out.missing); err != nil {
		return keyedAnswer{}, fmt.Errorf("%w: %w", ErrHalfRead, err)
	}
	return out, nil
}

func readKeyed(rows pgx.Rows) (keyedAnswer, error) {
	defer rows.Close()
	var (
		out keyedAnswer
		r   keyedRow
	)
	targets := r.targets()
	for rows.Next() {
		r = keyedRow{}
		if err := rows.Scan(targets...); err != nil {
			return keyedAnswer{}, err
		}
		r.add(&out)
	}
	return out, rows.Err()
}

func (r *keyedRow) add(out *keyedAnswer) {
	id := job.ID(r.id.Bytes)
	switch r.what {
	case keyedStarted:
		if r.missing.Bool {
			out.missing = append(out.missing, r.job())
		} else {
			out.jobs = append(out.jobs, r.job())
		}
	case keyedBlocked:
		for i, id := range r.others {
			out.blocked = append(out.blocked, Blocked{id, r.keys[i]})
		}
	case keyedThrottled:
		out.throttled = fromRaw(r.others)
	case keyedLeft:
		out.left = append(out.left, Waiting{id, r.queue.String, int(r.priority.Int16), r.ready.Time})
	case keyedFreed:
		out.freed = append(out.freed, r.keys...)
	case keyedHolders:
		if out.holders == nil {
			out.holders = make(map[string][]job.ID)
		}
		out.holders[r.key.String] = fromRaw(r.others)
	case keyedReserved:
		out.reserved = append(out.reserved, Reservation{id, r.queue.String, r.kind.String, r.ready.Time})
	case keyedAccepted:
		out.accepted = fromRaw(r.others)
	case keyedMoved:
		out.moves = append(out.moves, Move{Key: r.key.String, Out: r.other.Bytes, In: r.id.Bytes})
	case keyedEmptied:
		for i, id := range r.others {
			out.moves = append(out.moves, Move{Key: r.keys[i], Out: id})
			if !slices.Contains(out.freed, r.keys[i]) {
				out.freed = append(out.freed, r.keys[i])
			}
		}
	case keyedEnd:
		out.again, out.now = r.again.Bool, r.now.Time
	}
}
