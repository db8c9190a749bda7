package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// NoTimeout lets a job run without a limit of time.
const NoTimeout time.Duration = -1

// NoRetry, as MaxAttempts, ends a job with its first failure.
const NoRetry = 1

// Options says what is special about a job. The zero value of each field means "the default": that of the args type,
// else Weir's. Where several Options apply, a later non-zero field wins.
type Options struct {
	// ID is the job's id. Zero means a new one. Enqueueing an id again changes nothing for as long as the log is kept: at
	// least the retention of completed jobs (24 h by default), counted from the time in the id. At most 10 min in the future
	// on the database clock.
	ID ID
	// Queue is the lane in which the job waits. Zero means "default".
	Queue string
	// Priority is 1 (first) to 9 within the queue. Zero means 5.
	Priority int
	// Delay is how long from now, on the database clock, the job waits. Zero means none.
	Delay time.Duration
	// ScheduledAt is when the job is due, taken as given; an instant that is past means now. Zero means now. At most
	// 9999-12-31 UTC. Not together with Delay.
	ScheduledAt time.Time
	// ExpiresIn is how long after it is due an unstarted job is still worth running, on the database clock. After
	// that it ends as expired. Zero means for ever.
	ExpiresIn time.Duration
	// MaxAttempts is how many attempts may fail before the job is discarded, at most 10,000. Zero means 25.
	MaxAttempts int
	// Timeout is how long one attempt may run, from the handler's start: 1 ms or more, or NoTimeout. Zero means the
	// handler's, else 1 h.
	Timeout time.Duration
	// Backoff is the wait after a failed attempt. Zero means the handler's, else attempt⁴ s ± 10 %, at most 24 h.
	Backoff Backoff
	// Mode is how far the job is kept from the worker's process, at least: it can ask for more isolation than its handler,
	// not for less. It waits for a worker that accepts it. Zero means as its handler says.
	Mode Mode
	// Keys are what the job shares with others: it starts only while it can hold all of its locks and all of its rates have
	// room. At most 8, no name twice. A job with locks has a timeout. Where several Options apply, the last that is not nil
	// counts whole. Nil means none.
	Keys []Key
	// Unique lets only one job of its kind exist with a key. Where several Options apply, the last that is not zero counts whole;
	// NotUnique undoes it. Zero means any number.
	Unique Unique
	// OnDiscard is the kind of a job that is enqueued, in the same transaction, when this one is discarded: its payload is a
	// Failure. Its options are those of weir.enqueue: queue "default" and so on; it has no failure job itself. Zero means none.
	OnDiscard string
	// Tags and Metadata are carried along and can be searched. At most 32 of each, without control characters; tags
	// and names are of 1 to 128 bytes, values of at most 1024. Where several Options apply, the last that is not nil
	// counts whole.
	Tags     []string
	Metadata map[string]string
}

// Merge returns o with the non-zero fields of over in their place.
func (o Options) Merge(over Options) Options {
	set(&o.ID, over.ID)
	set(&o.Queue, over.Queue)
	set(&o.Priority, over.Priority)
	if over.Delay != 0 || !over.ScheduledAt.IsZero() { // one of the two says when: the later one alone
		o.Delay, o.ScheduledAt = over.Delay, over.ScheduledAt
	}
	set(&o.ExpiresIn, over.ExpiresIn)
	set(&o.MaxAttempts, over.MaxAttempts)
	set(&o.Timeout, over.Timeout)
	set(&o.Backoff, over.Backoff)
	set(&o.Mode, over.Mode)
	if over.Keys != nil {
		o.Keys = over.Keys
	}
	set(&o.Unique, over.Unique)
	set(&o.OnDiscard, over.OnDiscard)
	if over.Tags != nil {
		o.Tags = over.Tags
	}
	if over.Metadata != nil {
		o.Metadata = over.Metadata
	}
	return o
}

func set[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}

// Complete fills the fields that a stored job must have and checks all. The error is a *FieldError. Timeout and
// Backoff stay zero when nobody said them: the worker fills them from its handler.
func (o Options) Complete() (Options, error) {
	o = Options{Queue: DefaultQueue, Priority: DefaultPriority, MaxAttempts: DefaultMaxAttempts}.Merge(o)
	if err := validateName("Queue", o.Queue); err != nil {
		return o, err
	}
	if err := o.checkNumbers(); err != nil {
		return o, err
	}
	if err := o.checkTimes(); err != nil {
		return o, err
	}
	if err := o.Backoff.validate(); err != nil {
		return o, err
	}
	if err := o.Mode.validate(); err != nil {
		return o, err
	}
	if err := o.checkKeys(); err != nil {
		return o, err
	}
	if err := o.Unique.validate(); err != nil {
		return o, err
	}
	if o.OnDiscard != "" {
		if err := validateKind("OnDiscard", o.OnDiscard); err != nil {
			return o, err
		}
	}
	return o, o.checkLabels()
}

func (o Options) checkNumbers() error {
	if o.Priority < 1 || o.Priority > MaxPriority {
		return &FieldError{Field: "Priority", Got: strconv.Itoa(o.Priority), Limit: "1 to 9"}
	}
	if o.MaxAttempts < 1 || o.MaxAttempts > MaxMaxAttempts {
		return &FieldError{Field: "MaxAttempts", Got: strconv.Itoa(o.MaxAttempts), Limit: fmt.Sprintf("1 to %d", MaxMaxAttempts)}
	}
	return nil
}

// lastInstant is the last that JSON (RFC 3339) can show in every time zone: a row with a later one could not be listed.
var lastInstant = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (o Options) checkTimes() error {
	if o.Delay < 0 {
		return &FieldError{Field: "Delay", Got: o.Delay.String(), Limit: "0 or more"}
	}
	if o.Delay != 0 && !o.ScheduledAt.IsZero() {
		return &FieldError{Field: "Delay", Got: "given together with ScheduledAt", Limit: "one of the two"}
	}
	if o.ScheduledAt.After(lastInstant) {
		return &FieldError{Field: "ScheduledAt", Got: o.ScheduledAt.UTC().Format(time.RFC3339), Limit: "up to 9999-12-31 UTC"}
	}
	if o.ExpiresIn < 0 {
		return &FieldError{Field: "ExpiresIn", Got: o.ExpiresIn.String(), Limit: "0 or more"}
	}
	if !o.ScheduledAt.IsZero() && o.ScheduledAt.Add(o.ExpiresIn).After(lastInstant) {
		return &FieldError{Field: "ExpiresIn", Got: o.ExpiresIn.String(), Limit: "an end up to 9999-12-31 UTC"}
	}
	if o.Timeout != NoTimeout && (o.Timeout < 0 || o.Timeout > 0 && o.Timeout < time.Millisecond) {
		return &FieldError{Field: "Timeout", Got: o.Timeout.String(), Limit: "1ms or more, or NoTimeout"}
	}
	return nil
}

func (o Options) checkLabels() error {
	if len(o.Tags) > MaxTags {
		return &FieldError{Field: "Tags", Got: strconv.Itoa(len(o.Tags)), Limit: strconv.Itoa(MaxTags) + " tags"}
	}
	for _, t := range o.Tags {
		if err := validateName("Tags", t); err != nil {
			return err
		}
	}
	if len(o.Metadata) > MaxMetadata {
		return &FieldError{Field: "Metadata", Got: strconv.Itoa(len(o.Metadata)), Limit: strconv.Itoa(MaxMetadata) + " entries"}
	}
	for k, v := range o.Metadata {
		if err := validateName("Metadata", k); err != nil {
			return err
		}
		if len(v) > MaxValueBytes || !printable(v) {
			return &FieldError{Field: "Metadata", Got: quoteShort(v), Limit: "values of at most 1024 bytes of UTF-8 without control characters"}
		}
	}
	return nil
}

// OptionsOf returns the defaults that the args type declares, or the zero Options; also for nil args, which Encode
// refuses.
func OptionsOf(args Args) Options {
	if a, ok := args.(WithOptions); ok && !isNil(args) {
		return a.Options()
	}
	return Options{}
}

// DecodeMetadata reads the JSON object in which metadata is stored; anything else is no metadata.
func DecodeMetadata(text []byte) map[string]string {
	var m map[string]string
	if len(text) == 0 || json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}
