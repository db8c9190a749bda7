package pgstore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// EnqueueSQL returns the statement that database/sql transactions run, and its one argument. It has four columns,
// int and text alone, which ScanEnqueued reads.
func (s *Store) EnqueueSQL(jobs []NewJob) (query, arg string, err error) {
	rows := make([]jsonJob, len(jobs))
	for i := range jobs {
		rows[i] = jsonJobOf(&jobs[i])
	}
	b, err := json.Marshal(rows)
	if err != nil {
		return "", "", fmt.Errorf("encode %d jobs: %w", len(jobs), err)
	}
	return s.call("enqueue_json_v1", "db_now_us, inserted, least_ready_us, duplicates", 1), string(b), nil
}

// ScanEnqueued turns the four columns of EnqueueSQL's row into what Enqueue returns.
func ScanEnqueued(nowMicros, inserted int64, leastMicros *int64, duplicates *string) (Enqueued, error) {
	out := Enqueued{Now: time.UnixMicro(nowMicros), Inserted: int(inserted)}
	if leastMicros != nil {
		out.LeastReady = time.UnixMicro(*leastMicros)
	}
	if duplicates == nil || *duplicates == "" {
		return out, nil
	}
	out.Duplicates = make(map[job.ID]bool)
	for _, text := range strings.Split(*duplicates, ",") {
		id, err := job.ParseID(text)
		if err != nil {
			return Enqueued{}, fmt.Errorf("read the ids of duplicates: %w", err)
		}
		out.Duplicates[id] = true
	}
	return out, nil
}

type jsonJob struct {
	ID          string  `json:"id"`
	Kind        string  `json:"kind"`
	Queue       string  `json:"queue"`
	Payload     string  `json:"payload"`
	Priority    int     `json:"priority"`
	MaxAttempts int     `json:"max_attempts"`
	Delay       *int64  `json:"delay_ms,omitempty"`
	Scheduled   *string `json:"scheduled,omitempty"`
	Expires     *int64  `json:"expires_ms,omitempty"`
	Timeout     *int64  `json:"timeout_ms,omitempty"`
	Backoff     *string `json:"backoff,omitempty"`
	Tags        *string `json:"tags,omitempty"`
	Metadata    *string `json:"metadata,omitempty"`
	Trace       *string `json:"trace,omitempty"`
	Parent      *string `json:"parent,omitempty"`
	Keys        *string `json:"keys,omitempty"`
	KeyLimits   *string `json:"key_limits,omitempty"`
	Rates       *string `json:"rates,omitempty"`
	Mode        *int16  `json:"mode,omitempty"`
	OnDiscard   *string `json:"failure_kind,omitempty"`
}

func jsonJobOf(j *NewJob) jsonJob {
	r := jsonJob{
		ID: j.ID.UUID(), Kind: j.Kind, Queue: j.Queue, Payload: string(j.Payload), Priority: j.Priority,
		MaxAttempts: j.MaxAttempts, Delay: millis(j.Delay), Expires: millis(j.ExpiresIn), Timeout: timeoutMillis(j.Timeout),
		Backoff: text(j.Backoff), Tags: tagsText(j.Tags), Metadata: metadataText(j.Metadata), Trace: text(j.Trace),
		OnDiscard: text(j.OnDiscard),
	}
	r.Keys, r.KeyLimits, r.Rates = keyTexts(j.Keys)
	r.Mode = modeNumber(j.Mode)
	if at := instant(j.ScheduledAt); at != nil {
		r.Scheduled = text(at.UTC().Format(time.RFC3339Nano))
	}
	if !j.Parent.IsZero() {
		r.Parent = text(j.Parent.UUID())
	}
	return r
}

// NowSQL returns a statement that database/sql transactions run for the database's time, in microseconds since 1970.
func (s *Store) NowSQL() string { return s.sql["now_micros"] }
