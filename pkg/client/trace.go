package client

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirq/weir/pkg/job"
)

// instrumentation names the spans' origin.
const instrumentation = "github.com/weirq/weir"

// tracer returns where spans go; nil when nobody wants any, and then they cost nothing.
func (c *Client) tracer() trace.Tracer {
	if c.cfg.Tracing == nil {
		return nil
	}
	return c.cfg.Tracing.Tracer(instrumentation)
}

// traced begins the span of an enqueueing call, whose context the jobs record: the spans of their attempts are linked to it.
// end finishes it with the call's ids and error.
func (c *Client) traced(ctx context.Context, name string, jobs int) (_ context.Context, end func(ids []Enqueued, err error)) {
	t := c.tracer()
	if t == nil {
		return ctx, func([]Enqueued, error) {}
	}
	ctx, span := t.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "weir"), attribute.String("messaging.operation.type", "send"),
		attribute.String("weir.namespace", c.cfg.Namespace), attribute.Int("messaging.batch.message_count", jobs)))
	return ctx, func(ids []Enqueued, err error) {
		if len(ids) == 1 && err == nil {
			span.SetAttributes(attribute.String("messaging.message.id", ids[0].ID.String()), attribute.Bool("weir.duplicate", ids[0].Duplicate))
		}
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// traceName is the name of the span of one job's enqueue, bounded by the program's kinds; of several, without one.
func traceName(args job.Args) string {
	if args == nil {
		return "enqueue"
	}
	if _, ok := args.(job.Raw); ok {
		return "enqueue" // its kind comes from outside
	}
	defer func() { _ = recover() }() // a nil pointer's method: the call itself refuses it
	return "enqueue " + args.Kind()
}

// Tracing returns where spans go; nil for nowhere. For package worker; not covered by the compatibility promise.
func (c *Client) Tracing() trace.TracerProvider { return c.cfg.Tracing }
