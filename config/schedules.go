package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/internal/cadence"
	"github.com/weirq/weir/pkg/job"
)

const maxSchedules = 10_000

// Schedule is a job that a sweeper enqueues again and again.
type Schedule struct {
	// Name identifies the schedule in its namespace, byte for byte.
	Name string
	// Cron is when the job is due: five or six fields, or a nickname such as @daily. Empty means Every.
	Cron string
	// Zone is Cron's IANA time zone. Empty means UTC.
	Zone string
	// Every is the interval between two jobs. Zero means Cron.
	Every time.Duration
	// FirstIn is how long after the schedule came to be its first job is due. Zero means Every.
	FirstIn time.Duration
	// Kind is the kind of its jobs.
	Kind string
	// Payload is the JSON of each job.
	Payload string
	// Queue, Priority, MaxAttempts, Timeout (job.NoTimeout for none), ExpiresIn and Tags are as of any job. Zero means not said.
	Queue       string
	Priority    int
	MaxAttempts int
	Timeout     time.Duration
	ExpiresIn   time.Duration
	Tags        []string
	// Misfire is what becomes of ticks that nobody fired in time: once, skip or all. Empty means once.
	Misfire string
	// MisfireCap is how many of all. Zero means 100.
	MisfireCap int
	// Disabled keeps the schedule without firing it.
	Disabled bool
}

// check returns what is wrong with a schedule whose fields were read, and which field it is.
func (s *Schedule) check() (field, problem string) {
	if _, err := cadence.New(s.Every, s.Cron, s.Zone); err != nil {
		var fault *cadence.Error
		if errors.As(err, &fault) {
			return strings.ToLower(fault.Field), "is " + hideSecret(fault.Got) + ", must be " + hideSecret(fault.Limit)
		}
		return "cron", "is not understood"
	}
	if s.FirstIn != 0 && s.Every == 0 {
		return "first_in", "is given without every; cron says by itself when the first is due"
	}
	if err := job.ValidateKind(s.Kind); err != nil {
		return "kind", show(s.Kind) + " is no kind: 1 to 128 characters of A-Z a-z 0-9 _ . : / -"
	}
	if err := job.ValidatePayload([]byte(s.Payload)); err != nil {
		var fault *job.FieldError
		if errors.As(err, &fault) {
			return "payload", "is " + fault.Got + ", must be " + fault.Limit
		}
	}
	return "", ""
}

// hideSecret keeps a text that quotes a value out of an error when it may hold a password.
func hideSecret(s string) string {
	if likeSecret.MatchString(s) {
		return "something else (not shown)"
	}
	return s
}

// schedulesFrom reads the list as it stands in a file.
func schedulesFrom(l *leaf, s string) (any, string) {
	f := &file{layer: newLayer(), name: "line"}
	if root := f.parse([]byte(s)); root != nil && f.plain(root, l.key) {
		f.schedules(root, l)
	}
	if len(f.errs) > 0 {
		var fault *Error
		if errors.As(f.errs[0], &fault) {
			return nil, strings.TrimPrefix(strings.TrimPrefix(fault.Key, l.key)+" ", " ") + fault.Problem
		}
	}
	if v, ok := f.values[l.key]; ok {
		return v, ""
	}
	return nil, "is empty; leave it out instead, or write [] for none"
}

// shown is a schedule as it is printed: what a file would say.
type shown struct {
	Name        string          `json:"name"`
	Cron        string          `json:"cron,omitempty"`
	Zone        string          `json:"zone,omitempty"`
	Every       string          `json:"every,omitempty"`
	FirstIn     string          `json:"first_in,omitempty"`
	Kind        string          `json:"kind"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	Queue       string          `json:"queue,omitempty"`
	Priority    int             `json:"priority,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty"`
	Timeout     string          `json:"timeout,omitempty"`
	ExpiresIn   string          `json:"expires_in,omitempty"`
	Tags        []string        `json:"tags,omitempty"`
	Misfire     string          `json:"misfire,omitempty"`
	MisfireCap  int             `json:"misfire_cap,omitempty"`
	Enabled     *bool           `json:"enabled,omitempty"`
}

// formatSchedules writes what schedulesFrom reads.
func formatSchedules(list []Schedule) string {
	if len(list) == 0 {
		return "" // as a variable: not set
	}
	all := make([]shown, len(list))
	for i, s := range list {
		all[i] = shown{
			Name: s.Name, Cron: s.Cron, Zone: s.Zone, Every: formatSpan(s.Every), FirstIn: formatSpan(s.FirstIn), Kind: s.Kind, Queue: s.Queue,
			Priority: s.Priority, MaxAttempts: s.MaxAttempts, Timeout: formatSpan(s.Timeout), ExpiresIn: formatSpan(s.ExpiresIn), Tags: s.Tags,
			Misfire: s.Misfire, MisfireCap: s.MisfireCap,
		}
		if s.Payload != "{}" {
			all[i].Payload = json.RawMessage(s.Payload)
		}
		if s.Disabled {
			all[i].Enabled = new(bool)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		return fmt.Sprintf("%d schedules", len(list)) // checked JSON always encodes
	}
	return strings.TrimSpace(b.String())
}

// formatSpan writes a duration, none for job.NoTimeout, and nothing for zero.
func formatSpan(d time.Duration) string {
	switch d {
	case 0:
		return ""
	case job.NoTimeout:
		return "none"
	}
	return formatDuration(d)
}
