package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Job is what a handler gets: the row as it was claimed, and its payload decoded.
type Job[T job.Args] struct {
	job.Row
	Args T

	task *task
}

// FinishTx completes the job in the handler's own transaction: its effects and its end are one commit, exactly once.
// Return nil after the commit; the worker then only checks that the outcome is there, and counts a failed attempt if it
// is not. result is encoded as JSON, nil is none. An error means that the transaction must be rolled back:
// job.ErrLeaseLost if the job may be running elsewhere.
func (j *Job[T]) FinishTx(ctx context.Context, tx pgx.Tx, result any) error {
	if j.task == nil || j.task.worker == nil {
		return fmt.Errorf("worker: FinishTx outside a worker")
	}
	var encoded []byte
	if result != nil {
		var err error
		if encoded, err = encodeResult(result); err != nil {
			return err
		}
	}
	return j.task.finishTx(ctx, tx, encoded)
}

// FenceToken returns a number that rises with every claim of this job, for the user's own tables: a write that carries
// a lower one than was seen comes from an attempt that was given away. It is unique within one timeline of the
// database: after a failover that lost commits the same number may be given twice.
func (j *Job[T]) FenceToken() int { return j.Fence }

// Middleware wraps the calls of handlers. next calls the handler (and inner middleware) and returns its error; a panic
// of the handler arrives as a *job.PanicError. row is a copy: what is changed in it (a payload that is decrypted) reaches
// the handler, and nothing else.
type Middleware func(ctx context.Context, row *job.Row, next func(context.Context) error) error

// HandlerOptions are a kind's execution defaults. What the job's row says goes before.
type HandlerOptions struct {
	// Timeout is how long an attempt may run. Zero means the worker's, else 1 h; job.NoTimeout none.
	Timeout time.Duration
	// Backoff is the wait after a failed attempt. Zero means job.Polynomial.
	Backoff job.Backoff
	// Slots is how many jobs of this kind run at once in this process. Zero means as many as the queues allow.
	Slots int
	// Aliases are further kinds that this handler takes: former names.
	Aliases []string
	// Middleware wraps this handler, inside the worker's own.
	Middleware []Middleware
	// Mode is how far the handler is kept from this process. Zero means job.Inline. A job can ask for more (job.Options.Mode),
	// a worker accept fewer (Config.Modes). A handler is the same in all modes; what differs is what it shares: in a child
	// it sees the variables and the memory of the child, and of the environment what Children.Env lets through.
	Mode job.Mode
	// StopOnDoubt cancels the handler with job.ErrLeaseLost when the lease could not be renewed in time, before the job
	// may be given away. Without it the handler goes on, since its result is fenced.
	StopOnDoubt bool
}

// handler is a registered kind.
type handler struct {
	kind        string
	timeout     time.Duration
	backoff     job.Backoff
	slots       int
	aliases     []string
	middleware  []Middleware
	stopOnDoubt bool
	mode        job.Mode
	command     bool   // a program: call starts a process of its own
	queue       string // that the args type names, for a warning at start; "" if none
	call        func(ctx context.Context, t *task, row job.Row) (result []byte, err error)
}

// Handle registers f for the kind of T. Options may be given once. It panics on a programmer's mistake: a kind that is
// invalid or taken, a nil f, after Run has begun.
func Handle[T job.Args](w *Worker, f func(context.Context, *Job[T]) error, opts ...HandlerOptions) {
	if f == nil {
		panic("worker: Handle: nil handler")
	}
	w.register(newHandler(func(ctx context.Context, j *Job[T]) (any, error) { return nil, f(ctx, j) }, opts))
}

// HandleResult registers f, whose result is stored with the outcome as JSON of at most 64 KiB; client.Await reads it.
// A result that is larger or cannot be encoded discards the job with that reason: it would be so again.
func HandleResult[T job.Args, R any](w *Worker, f func(context.Context, *Job[T]) (R, error), opts ...HandlerOptions) {
	if f == nil {
		panic("worker: HandleResult: nil handler")
	}
	w.register(newHandler(func(ctx context.Context, j *Job[T]) (any, error) {
		r, err := f(ctx, j)
		if err != nil {
			return nil, err
		}
		return r, nil
	}, opts))
}

func newHandler[T job.Args](f func(context.Context, *Job[T]) (any, error), opts []HandlerOptions) *handler {
	var zero T
	h := &handler{kind: zero.Kind(), queue: job.OptionsOf(zero).Queue}
	h.apply(opts)
	h.call = func(ctx context.Context, t *task, row job.Row) ([]byte, error) {
		j := &Job[T]{Row: row, task: t}
		if err := json.Unmarshal(row.Payload, &j.Args); err != nil {
			return nil, fmt.Errorf("decode payload of %s: %w", row.Kind, err)
		}
		result, err := f(ctx, j)
		if err != nil || result == nil {
			return nil, err
		}
		return encodeResult(result)
	}
	return h
}

// apply takes over options, which may be given once.
func (h *handler) apply(opts []HandlerOptions) {
	if len(opts) > 1 {
		panic("worker: Handle " + h.kind + ": options given twice")
	}
	if len(opts) == 1 {
		o := opts[0]
		h.timeout, h.backoff, h.slots, h.stopOnDoubt = o.Timeout, o.Backoff, o.Slots, o.StopOnDoubt
		h.aliases, h.middleware, h.mode = o.Aliases, o.Middleware, o.Mode
	}
}

func encodeResult(result any) ([]byte, error) {
	b, err := json.Marshal(result)
	if err != nil {
		return nil, job.Discard(fmt.Errorf("encode result: %w", err))
	}
	if len(b) > job.MaxResultBytes {
		return nil, job.Discard(&job.FieldError{
			Field: "result", Got: fmt.Sprintf("%d bytes", len(b)), Limit: fmt.Sprintf("at most %d bytes", job.MaxResultBytes),
		})
	}
	return b, nil
}

func (w *Worker) register(h *handler) {
	if err := h.validate(); err != nil {
		panic("worker: Handle: " + err.Error())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started || w.draining {
		panic("worker: Handle " + h.kind + ": the worker runs already")
	}
	for _, kind := range append([]string{h.kind}, h.aliases...) {
		if _, taken := w.handlers[kind]; taken {
			panic("worker: Handle: kind " + kind + " has a handler already")
		}
		w.handlers[kind] = h
	}
}

func (h *handler) validate() error {
	for _, kind := range append([]string{h.kind}, h.aliases...) {
		if err := job.ValidateKind(kind); err != nil {
			return err
		}
	}
	if _, err := (job.Options{Timeout: h.timeout, Backoff: h.backoff, Mode: h.mode}).Complete(); err != nil {
		return err
	}
	if h.slots < 0 {
		return &job.FieldError{Field: "Slots", Got: fmt.Sprint(h.slots), Limit: "0 or more"}
	}
	return nil
}

// held returns what the store needs to find this claim.
func (t *task) held() pgstore.Held { return pgstore.Held{ID: t.row.ID, Fence: t.row.Fence} }
