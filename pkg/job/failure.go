package job

import (
	"encoding/json"
	"time"
)

// Failure is the payload of a failure job (Options.OnDiscard): a job that was discarded, and why. Embed it in the args type of the
// failure job:
//
//	type MailFailed struct{ job.Failure }
//
//	func (MailFailed) Kind() string { return "mail.failed" }
//
// (Kind is then the failure job's own method; the kind of the discarded job is Failure.Kind.)
type Failure struct {
	ID          ID                `json:"id"`
	Kind        string            `json:"kind"`
	Queue       string            `json:"queue"`
	Payload     json.RawMessage   `json:"payload"`
	Priority    int               `json:"priority"`
	Attempt     int               `json:"attempt"` // attempts that failed
	MaxAttempts int               `json:"max_attempts"`
	Crashes     int               `json:"crashes"`
	Tags        []string          `json:"tags"`
	Metadata    map[string]string `json:"metadata"`
	EnqueuedAt  time.Time         `json:"enqueued_at"`
	FinishedAt  time.Time         `json:"finished_at"`
	Error       string            `json:"error"` // of the last attempt, or why it ended
	Stack       string            `json:"stack"` // of the last attempt, if it panicked
}
