package pgstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// ListSQL returns a statement, for whatever driver, whose one row and column ScanList reads: the jobs of a kind and a
// queue (empty: all) that the transaction sees, the newest limit of them.
func (s *Store) ListSQL(kind, queue string, limit int) (query string, args []any) {
	return s.sql["list_json"], []any{kind, queue, strconv.Itoa(limit)} // text alone: not every driver knows the types
}

type listed struct {
	ID          job.ID          `json:"id"`
	Kind        string          `json:"kind"`
	Queue       string          `json:"queue"`
	Priority    int             `json:"priority"`
	State       job.State       `json:"state"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"max_attempts"`
	Fence       int             `json:"fence"`
	ReadyAt     *time.Time      `json:"ready_at"`
	ExpiresAt   *time.Time      `json:"expires_at"`
	EnqueuedAt  *time.Time      `json:"enqueued_at"`
	ScheduledAt *time.Time      `json:"scheduled_at"`
	Payload     json.RawMessage `json:"payload"`
	Timeout     *int64          `json:"timeout_ms"`
	Backoff     *string         `json:"backoff"`
	Tags        []string        `json:"tags"`
	Metadata    json.RawMessage `json:"metadata"`
	Trace       *string         `json:"trace"`
	ParentID    *job.ID         `json:"parent_id"`
	Keys        []string        `json:"keys"`
	KeyLimits   []int32         `json:"key_limits"`
	Rates       []string        `json:"rates"`
	Mode        int8            `json:"mode"` // a number, where job.Mode is read from its name
}

// ScanList reads the answer to ListSQL, oldest job first.
func ScanList(text string) ([]job.Row, error) {
	var list []listed
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read list of jobs: %w", err)
	}
	rows := make([]job.Row, len(list))
	for i, l := range list {
		rows[i] = job.Row{
			ID: l.ID, Kind: l.Kind, Queue: l.Queue, Priority: l.Priority, State: l.State, Attempt: l.Attempt,
			MaxAttempts: l.MaxAttempts, Fence: l.Fence, Payload: l.Payload, Timeout: timeoutOf(l.Timeout), Tags: l.Tags,
			Metadata: job.DecodeMetadata(l.Metadata), Trace: deref(l.Trace), ParentID: deref(l.ParentID),
			ReadyAt: deref(l.ReadyAt), ExpiresAt: deref(l.ExpiresAt), EnqueuedAt: deref(l.EnqueuedAt),
			ScheduledAt: deref(l.ScheduledAt), Keys: job.JoinKeys(l.Keys, l.KeyLimits, l.Rates), Mode: job.Mode(l.Mode),
		}
		rows[i].Backoff, _ = job.ParseBackoff(deref(l.Backoff)) // a row edited by hand: the handler's backoff then
	}
	return rows, nil
}
