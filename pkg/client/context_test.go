package client_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// traced returns a context with a span.
func traced(ctx context.Context) (context.Context, string) {
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5}, TraceFlags: trace.FlagsSampled,
	})
	return trace.ContextWithSpanContext(ctx, span), "00-01020300000000000000000000000000-0405000000000000-01"
}

func TestAJobRecordsItsParentAndTrace(t *testing.T) {
	t.Parallel()
	c, other := open(t), open(t)
	parent := c.IDs().New()
	inherited := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	handler := client.WithJob(t.Context(), c.Client, parent, inherited)
	spanned, own := traced(handler)
	plain, ownPlain := traced(t.Context())
	for name, test := range map[string]struct {
		c      rig
		ctx    context.Context
		parent job.ID
		trace  string
	}{
		"outside a handler":              {c, t.Context(), job.ID{}, ""},
		"with a span":                    {c, plain, job.ID{}, ownPlain},
		"in a handler":                   {c, handler, parent, inherited},
		"in a handler with a span":       {c, spanned, parent, own},
		"by a client of other namespace": {other, handler, job.ID{}, inherited},
	} {
		e, err := test.c.Enqueue(test.ctx, welcome{})
		if err != nil {
			t.Fatal(err)
		}
		row, err := test.c.Job(t.Context(), e.ID)
		if err != nil || row.ParentID != test.parent || row.Trace != test.trace {
			t.Errorf("%s: parent %s, trace %q, %v", name, row.ParentID, row.Trace, err)
		}
	}
	if client.FromContext(handler) != c.Client || client.FromContext(t.Context()) != nil {
		t.Error("FromContext does not give the handler's client")
	}
}
