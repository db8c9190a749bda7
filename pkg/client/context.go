package client

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/weirq/weir/pkg/job"
)

type contextKey struct{}

// within is what a handler's context says about its job.
type within struct {
	client *Client
	parent job.ID
	trace  string
}

// WithJob returns a context for the handler of job parent: FromContext returns c, and what is enqueued with the context
// records the parent, and its trace unless the context has a span of its own. For package worker; not covered by the
// compatibility promise.
func WithJob(ctx context.Context, c *Client, parent job.ID, trace string) context.Context {
	return context.WithValue(ctx, contextKey{}, within{c, parent, trace})
}

// FromContext returns the client of the worker whose handler got ctx; nil outside a handler.
func FromContext(ctx context.Context) *Client {
	w, _ := ctx.Value(contextKey{}).(within)
	return w.client
}

// lineage returns the parent and the W3C traceparent of a job that is enqueued with ctx.
func (c *Client) lineage(ctx context.Context) (parent job.ID, traceparent string) {
	if w, ok := ctx.Value(contextKey{}).(within); ok {
		traceparent = w.trace
		if w.client == nil || w.client.cfg.Namespace == c.cfg.Namespace {
			parent = w.parent // an id of another namespace would name nothing here
		}
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		traceparent = carrier["traceparent"]
	}
	return parent, traceparent
}
