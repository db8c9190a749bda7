package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Whom an entry of limits belongs to.
const (
	OwnerConfig   = "config"   // a YAML file
	OwnerOverride = "override" // a YAML file too, but somebody has replaced its entry by hand
)

// Limit is an entry of limits: it counts before what jobs say themselves.
type Limit struct {
	Key    string        `json:"key"` // the name of a key, or how names begin
	Prefix bool          `json:"prefix,omitempty"`
	Rate   bool          `json:"rate,omitempty"` // about rates, not locks
	N      int           `json:"limit"`          // holders at once, zero: none may start; of a rate: starts in Per
	Per    time.Duration `json:"per_ns,omitempty"`
	Owner  string        `json:"owner,omitempty"` // OwnerConfig, OwnerOverride, or empty: made by hand
}

// QueueLimit is what all workers together may do with a queue.
type QueueLimit struct {
	Name  string        `json:"queue"`
	N     int           `json:"limit,omitempty"` // jobs at once; zero: any number
	Rate  int           `json:"rate,omitempty"`  // starts in Per; zero: any number
	Per   time.Duration `json:"per_ns,omitempty"`
	Owner string        `json:"owner,omitempty"`

	Running int `json:"running"` // jobs of the queue
	Granted int `json:"granted"` // starts in the last Per
}

// ErrOwned reports an entry that a YAML file owns.
var ErrOwned = errors.New("pgstore: the entry belongs to a configuration file")

// SetLimit writes an entry; ErrOwned if it is a file's and override is not given.
func (s *Store) SetLimit(ctx context.Context, l Limit, override bool) error {
	return s.owned(ctx, "set_limit", l.Key, l.Prefix, l.Rate, int32(l.N), millis(l.Per), override)
}

// SetQueueLimit writes a queue's limits; ErrOwned if they are a file's and override is not given.
func (s *Store) SetQueueLimit(ctx context.Context, q QueueLimit, override bool) error {
	return s.owned(ctx, "set_queue_limit", q.Name, number(q.N), number(q.Rate), millis(q.Per), override)
}

// owned runs a statement that writes what is not a file's and returns a row if it did.
func (s *Store) owned(ctx context.Context, name string, args ...any) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var owner string
	err := s.row(ctx, s.sql[name], args...).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrOwned
	}
	if err != nil {
		return fmt.Errorf("set limit: %w", Classify(err))
	}
	return nil
}

// number is nil for zero: no limit.
func number(n int) *int32 {
	if n == 0 {
		return nil
	}
	v := int32(n)
	return &v
}

// UnsetLimit takes an entry away and reports whether there was one; ErrOwned if it is a file's and override is not given.
func (s *Store) UnsetLimit(ctx context.Context, l Limit, override bool) (bool, error) {
	return s.unset(ctx, "unset_limit", l.Key, l.Prefix, l.Rate, override)
}

// UnsetQueueLimit takes a queue's limits away; see UnsetLimit.
func (s *Store) UnsetQueueLimit(ctx context.Context, name string, override bool) (bool, error) {
	return s.unset(ctx, "unset_queue_limit", name, override)
}

func (s *Store) unset(ctx context.Context, name string, args ...any) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var gone bool
	err := s.row(ctx, s.sql[name], args...).Scan(&gone)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("unset limit: %w", Classify(err))
	case !gone:
		return false, ErrOwned
	}
	return true, nil
}

// Limits returns at most limit entries, locks before rates, by key.
func (s *Store) Limits(ctx context.Context, limit int) ([]Limit, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "limits", scanLimit, int32(limit))
}

// LimitEntry returns the entry that counts for a key; ok is false if none does.
func (s *Store) LimitEntry(ctx context.Context, key string, rate bool) (l Limit, ok bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	found, err := collect(ctx, s, "limit_entry", scanLimit, key, rate)
	if err != nil || len(found) == 0 {
		return Limit{}, false, err
	}
	return found[0], true, nil
}

func scanLimit(row pgx.Rows) (l Limit, err error) {
	var per int64
	err = row.Scan(&l.Key, &l.Prefix, &l.Rate, &l.N, &per, &l.Owner)
	l.Per = time.Duration(per) * time.Millisecond
	return l, err
}

// QueueLimits returns the queues with limits, or the one of this name, with how much of them is used.
func (s *Store) QueueLimits(ctx context.Context, name string) ([]QueueLimit, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "queue_limits", func(row pgx.Rows) (q QueueLimit, err error) {
		var per int64
		err = row.Scan(&q.Name, &q.N, &q.Rate, &per, &q.Owner, &q.Running, &q.Granted)
		q.Per = time.Duration(per) * time.Millisecond
		return q, err
	}, name)
}

// SyncLimits makes the entries that a configuration file owns those of its list and returns which have changed.
func (s *Store) SyncLimits(ctx context.Context, limits []Limit) ([]Limit, error) {
	n := len(limits)
	keys, slots, pers := make([]string, n), make([]int32, n), make([]*int64, n)
	prefixes, rates := make([]bool, n), make([]bool, n)
	for i, l := range limits {
		keys[i], prefixes[i], rates[i], slots[i], pers[i] = l.Key, l.Prefix, l.Rate, int32(l.N), millis(l.Per)
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("sync_limits_v1", "o_key, o_prefix, o_rate", 5), keys, prefixes, rates, slots, pers)
	if err != nil {
		return nil, fmt.Errorf("write limits: %w", Classify(err))
	}
	changed, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Limit, err error) {
		err = row.Scan(&l.Key, &l.Prefix, &l.Rate)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("write limits: %w", Classify(err))
	}
	return changed, nil
}

// SyncQueueLimits makes the limits of queues that a configuration file owns those of its list and returns the queues that have
// changed.
func (s *Store) SyncQueueLimits(ctx context.Context, queues []QueueLimit) ([]string, error) {
	n := len(queues)
	names, slots, rates, pers := make([]string, n), make([]*int32, n), make([]*int32, n), make([]*int64, n)
	for i, q := range queues {
		names[i], slots[i], rates[i], pers[i] = q.Name, number(q.N), number(q.Rate), millis(q.Per)
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	rows, err := s.query(ctx, s.call("sync_queue_limits_v1", "sync_queue_limits_v1", 4), names, slots, rates, pers)
	if err != nil {
		return nil, fmt.Errorf("write limits of queues: %w", Classify(err))
	}
	changed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("write limits of queues: %w", Classify(err))
	}
	return changed, nil
}

// WaitingKeys returns at most limit of the locks that jobs are blocked on and that l is about.
func (s *Store) WaitingKeys(ctx context.Context, l Limit, limit int) ([]string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return collect(ctx, s, "waiting_keys", func(row pgx.Rows) (key string, err error) {
		err = row.Scan(&key)
		return key, err
	}, l.Key, l.Prefix, int32(limit))
}
