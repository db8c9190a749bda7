package job

import (
	"encoding/json"
	"time"
)

// Row is a job as it is stored. All instants are of the database clock. Handlers get one inside worker.Job; admin calls
// return it. Fields that a call does not read are zero, and its doc says so.
type Row struct {
	ID          ID                `json:"id"`
	Kind        string            `json:"kind"`
	Queue       string            `json:"queue"`
	Priority    int               `json:"priority"`
	State       State             `json:"state"`
	Attempt     int               `json:"attempt"` // attempts started, this one included; crashes and releases do not count
	MaxAttempts int               `json:"max_attempts"`
	Crashes     int               `json:"crashes,omitempty"` // processes that died while they ran it, since a handler last returned
	Fence       int               `json:"fence"`             // rises with every claim and every change by others
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Timeout     time.Duration     `json:"timeout_ns,omitempty"` // zero: the handler's
	Backoff     Backoff           `json:"-"`                    // zero: the handler's
	Mode        Mode              `json:"mode,omitzero"`        // the least isolation that its producer asked for
	Keys        []Key             `json:"keys,omitempty"`       // locks by name, then rates by name; numbers as the job has them
	Tags        []string          `json:"tags,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Trace       string            `json:"trace,omitempty"` // W3C traceparent of the producer
	ParentID    ID                `json:"parent_id,omitzero"`
	Session     ID                `json:"session,omitzero"` // who runs it, or ran it last
	EnqueuedAt  time.Time         `json:"enqueued_at,omitzero"`
	ScheduledAt time.Time         `json:"scheduled_at,omitzero"`
	ReadyAt     time.Time         `json:"ready_at,omitzero"` // when it is, or was, due
	ClaimedAt   time.Time         `json:"claimed_at,omitzero"`
	FinishedAt  time.Time         `json:"finished_at,omitzero"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	Result      json.RawMessage   `json:"result,omitempty"`
	Error       string            `json:"error,omitempty"` // of the last failed attempt, or why it ended
	Attempts    []Attempt         `json:"attempts,omitempty"`
}

// Attempt is one attempt that failed or was interrupted by a crash. One that completed leaves the outcome instead; a snooze,
// and a release after which the job goes on, leave nothing.
type Attempt struct {
	Attempt   int       `json:"attempt"`
	Fence     int       `json:"fence"`
	Outcome   string    `json:"outcome"` // failed, timed out, discarded, cancelled, crashed, or released (and cancelled meanwhile)
	Error     string    `json:"error,omitempty"`
	Stack     string    `json:"stack,omitempty"`
	Session   ID        `json:"session,omitzero"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}
