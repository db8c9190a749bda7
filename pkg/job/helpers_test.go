package job_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirq/weir/pkg/job"
)

// wantNil fails the test if err is an error.
func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

// wantField fails the test unless err is a *job.FieldError of field whose limit says limit, and whose text has both.
func wantField(t *testing.T, err error, field, limit string) {
	t.Helper()
	var f *job.FieldError
	if !errors.As(err, &f) {
		t.Errorf("got error %v, want a *job.FieldError of %s", err, field)
		return
	}
	if f.Field != field || !strings.Contains(f.Limit, limit) || f.Got == "" {
		t.Errorf("got field %q, got %q, limit %q; want field %q and a limit with %q", f.Field, f.Got, f.Limit, field, limit)
	}
	if text := err.Error(); !strings.Contains(text, f.Field) || !strings.Contains(text, f.Limit) || !strings.Contains(text, f.Got) {
		t.Errorf("got text %q, want one with the field, what was given and the limit", text)
	}
	if len(err.Error()) > 512 {
		t.Errorf("got a text of %d bytes, want a short one", len(err.Error()))
	}
}
