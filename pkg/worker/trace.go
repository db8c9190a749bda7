package worker

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// spans are those of one attempt: job, from when it was due until its result is durable, and within it pickup, execute and
// finish, one after the other. They are a trace of their own, linked to the span that enqueued the job: a job may run long
// after the trace of its request is over, and many times.
type spans struct {
	mu     sync.Mutex
	tracer trace.Tracer
	job    trace.Span
	step   trace.Span // the one of the three that is open; nil: none
	ctx    context.Context
}

// traceStart begins the spans of t, whose handler starts now, and returns the handler's context.
func (w *Worker) traceStart(ctx context.Context, t *task) context.Context {
	provider := w.client.Tracing()
	if provider == nil {
		return ctx
	}
	now := time.Now()
	due := now.Add(-max(t.row.ClaimedAt.Sub(t.row.ReadyAt), 0)) // of the database clock only the distance is taken
	s := &spans{tracer: provider.Tracer("github.com/weirq/weir")}
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(due), trace.WithAttributes(
			attribute.String("messaging.system", "weir"), attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.destination.name", t.row.Queue), attribute.String("messaging.message.id", t.row.ID.String()),
			attribute.String("weir.kind", t.row.Kind), attribute.Int("weir.attempt", t.row.Attempt), attribute.Int("weir.priority", t.row.Priority)),
	}
	if t.row.Trace != "" {
		producer := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": t.row.Trace})
		options = append(options, trace.WithLinks(trace.LinkFromContext(producer)))
	}
	s.ctx, s.job = s.tracer.Start(ctx, "job "+t.handler.kind, options...)
	_, pickup := s.tracer.Start(s.ctx, "pickup", trace.WithTimestamp(due))
	pickup.End(trace.WithTimestamp(now))
	ctx, s.step = s.tracer.Start(s.ctx, "execute", trace.WithTimestamp(now))
	t.mu.Lock()
	t.spans = s
	t.mu.Unlock()
	return ctx
}

// traceReturn ends the span of the handler, and begins that of its result's way to the database.
func (t *task) traceReturn(err error) {
	if s := t.traces(); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endStep(err)
		_, s.step = s.tracer.Start(s.ctx, "finish")
	}
}

// traceEnd ends what is open: the result is durable, or was refused.
func (t *task) traceEnd(outcome EventType, err error) {
	if s := t.traces(); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endStep(nil)
		s.job.SetAttributes(attribute.String("weir.outcome", string(outcome)))
		if err != nil {
			s.job.SetStatus(codes.Error, err.Error())
		}
		s.job.End()
	}
}

func (s *spans) endStep(err error) {
	if s.step == nil {
		return
	}
	if err != nil {
		s.step.SetStatus(codes.Error, err.Error())
	}
	s.step.End()
	s.step = nil
}

func (t *task) traces() *spans {
	if t.worker.client.Tracing() == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spans
}
