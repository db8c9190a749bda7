package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

func TestAJobIsStoredOnceItsEnqueueReturns(t *testing.T) {
	t.Parallel()
	c := open(t)
	id := c.enqueue(t, welcome{UserID: 7}, job.Options{
		Queue: "mail", Priority: 2, MaxAttempts: 3, Timeout: job.NoTimeout, Backoff: job.Fixed(time.Second),
		Tags: []string{"a", `b"c`}, Metadata: map[string]string{"req": "17"}, ExpiresIn: time.Hour,
	})
	row, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if row.Kind != "mail.welcome" || row.Queue != "mail" || row.Priority != 2 || row.MaxAttempts != 3 ||
		string(row.Payload) != `{"user_id":7}` || row.State != job.Available {
		t.Errorf("got %+v", row)
	}
	if row.Timeout != job.NoTimeout || row.Backoff != job.Fixed(time.Second) || len(row.Tags) != 2 || row.Tags[1] != `b"c` ||
		row.Metadata["req"] != "17" || row.ExpiresAt.Sub(row.EnqueuedAt).Round(time.Second) != time.Hour {
		t.Errorf("got %+v", row)
	}
}

// report has defaults of its own.
type report struct{}

func (report) Kind() string { return "report.daily" }
func (report) Options() job.Options {
	return job.Options{Queue: "reports", Priority: 3, MaxAttempts: 2}
}

func TestOptionsOfTheCallWinOverThoseOfTheArgs(t *testing.T) {
	t.Parallel()
	c := open(t)
	id := c.enqueue(t, report{}, job.Options{Priority: 7}, job.Options{Priority: 8, Tags: []string{"x"}})
	row, err := c.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if row.Queue != "reports" || row.Priority != 8 || row.MaxAttempts != 2 || len(row.Tags) != 1 {
		t.Errorf("got %+v", row)
	}
}

func TestAPayloadReachesTheStoreByteForByte(t *testing.T) {
	t.Parallel()
	c := open(t)
	for name, payload := range map[string]string{
		"an escaped null byte (B01)":           `{"k":"a\u0000b","a\u0000":1}`,
		"a lone surrogate (B01)":               `{"k":"\ud800"}`,
		"integers above 2^53 (B04)":            `{"id":7205759403792793601,"n":9007199254740993,"u":18446744073709551615}`,
		"digits and exponents (B04)":           `{"d":0.1234567890123456789,"e":1e400}`,
		"spaces, order and repeated keys":      `{ "b" : 1, "a":2 , "b":3 }`,
		"a text that is as long as is allowed": `"` + strings.Repeat("x", job.MaxPayloadBytes-2) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := c.enqueue(t, job.Raw{Name: "raw", Payload: json.RawMessage(payload)})
			row, err := c.Job(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(row.Payload, []byte(payload)) {
				t.Errorf("got %.80q, want %.80q", row.Payload, payload)
			}
		})
	}
}

// broken does not encode.
type broken struct{ C chan int }

func (broken) Kind() string { return "broken" }

func TestABadValueIsAFieldErrorAndNothingIsSent(t *testing.T) {
	t.Parallel()
	c := open(t)
	raw := func(kind, payload string) job.Args { return job.Raw{Name: kind, Payload: json.RawMessage(payload)} }
	for name, test := range map[string]struct {
		args    job.Args
		options job.Options
		field   string
	}{
		"no args":                          {nil, job.Options{}, "args"},
		"args that do not encode":          {broken{}, job.Options{}, "args"},
		"a null byte in the kind (B01)":    {raw("x\x00y", "1"), job.Options{}, "kind"},
		"a null byte in the queue (B01)":   {welcome{}, job.Options{Queue: "x\x00y"}, "Queue"},
		"a payload in Latin-1 (B02)":       {raw("k", "{\"n\":\"D\xfcs\"}"), job.Options{}, "payload"},
		"a payload that is not JSON":       {raw("k", `{`), job.Options{}, "payload"},
		"a payload over 1 MiB (B05)":       {welcome{Note: strings.Repeat("x", 1<<20)}, job.Options{}, "payload"},
		"a payload of 64 MB (B05)":         {raw("k", `"`+strings.Repeat("x", 64<<20)+`"`), job.Options{}, "payload"},
		"braces in a kind (B10)":           {raw("a{b", "1"), job.Options{}, "kind"},
		"a newline in a queue (B10)":       {welcome{}, job.Options{Queue: "a\nb"}, "Queue"},
		"a queue of 129 bytes (B11)":       {welcome{}, job.Options{Queue: strings.Repeat("é", 64) + "x"}, "Queue"},
		"a delay of -1ns (B13)":            {welcome{}, job.Options{Delay: -1}, "Delay"},
		"the least delay (B13)":            {welcome{}, job.Options{Delay: math.MinInt64}, "Delay"},
		"a delay and a time":               {welcome{}, job.Options{Delay: 1, ScheduledAt: time.Now()}, "Delay"},
		"a time in the year 10000 (B14)":   {welcome{}, job.Options{ScheduledAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "ScheduledAt"},
		"a time in the year 300000 (B14)":  {welcome{}, job.Options{ScheduledAt: time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)}, "ScheduledAt"},
		"priority 10":                      {welcome{}, job.Options{Priority: 10}, "Priority"},
		"a timeout below a millisecond":    {welcome{}, job.Options{Timeout: 1}, "Timeout"},
		"a tag with a null byte":           {welcome{}, job.Options{Tags: []string{"\x00"}}, "Tags"},
		"metadata of 1025 bytes":           {welcome{}, job.Options{Metadata: map[string]string{"k": strings.Repeat("x", 1025)}}, "Metadata"},
		"an id of an hour ahead (B16)":     {welcome{}, job.Options{ID: idAt(time.Now().Add(time.Hour))}, "ID"},
		"an id as far ahead as ids can be": {welcome{}, job.Options{ID: job.ID{0xff, 0xff}}, "ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := c.Enqueue(t.Context(), test.args, test.options)
			var field *job.FieldError
			if !errors.As(err, &field) || field.Field != test.field {
				t.Errorf("got %v, want a FieldError of %s", err, test.field)
			}
			if len(fmt.Sprint(err)) > 400 {
				t.Errorf("the error has %d bytes", len(fmt.Sprint(err)))
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	t.Cleanup(func() {
		if n := c.count(t, "jobs", "true"); n != 0 {
			t.Errorf("%d jobs were stored", n)
		}
	})
}

// idAt returns an id of an instant.
func idAt(at time.Time) job.ID {
	id := (&job.IDs{}).New() // random below its time
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}

func TestNamesWithSeparatorsStayApart(t *testing.T) { // B10, B11
	t.Parallel()
	c := open(t)
	long := strings.Repeat("q", 127)
	for _, queue := range []string{
		"a:b", "a", "{x}", "a{b", "}", "*", "?", "[a]", `\`, "a b", "é", "e\u0301", "😀", "https://h/p?x=1",
		long + "a", long + "b", strings.Repeat("é", 64),
	} {
		c.enqueue(t, welcome{}, job.Options{Queue: queue})
		n := 0
		for row, err := range c.Jobs(t.Context(), client.Filter{Queue: queue}) {
			if err != nil || row.Queue != queue {
				t.Fatalf("queue %q: got %q, %v", queue, row.Queue, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("queue %q holds %d jobs", queue, n)
		}
	}
}

func TestAJobIsDueWhenItsDelayOrTimeSays(t *testing.T) { // B13, B14
	t.Parallel()
	c := open(t)
	year9999 := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		options job.Options
		delay   time.Duration // from the enqueue; negative: not asked
		at      time.Time
	}{
		"at once":                      {job.Options{}, 0, time.Time{}},
		"1969-12-31 is at once":        {job.Options{ScheduledAt: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)}, 0, time.Time{}},
		"the year -4000 is at once":    {job.Options{ScheduledAt: time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)}, 0, time.Time{}},
		"24 days":                      {job.Options{Delay: 24 * 24 * time.Hour}, 24 * 24 * time.Hour, time.Time{}},
		"25 days":                      {job.Options{Delay: 25 * 24 * time.Hour}, 25 * 24 * time.Hour, time.Time{}},
		"the longest delay (292 y)":    {job.Options{Delay: math.MaxInt64}, math.MaxInt64, time.Time{}},
		"the last day of 9999":         {job.Options{ScheduledAt: year9999}, -1, year9999},
		"a nanosecond is rounded up":   {job.Options{Delay: 1}, time.Millisecond, time.Time{}},
		"in an hour by the wall clock": {job.Options{ScheduledAt: year9999.Add(-time.Hour)}, -1, year9999.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row, err := c.Job(t.Context(), c.enqueue(t, welcome{}, test.options))
			if err != nil {
				t.Fatal(err)
			}
			want := test.at
			if test.delay >= 0 {
				want = row.EnqueuedAt.Add(test.delay)
			}
			if off := row.ReadyAt.Sub(want); off.Abs() > 50*time.Millisecond {
				t.Errorf("ready at %v, want %v", row.ReadyAt, want)
			}
			wait := want.Sub(row.EnqueuedAt)
			if wait <= 0 && row.State != job.Available || wait > time.Minute && row.State != job.Scheduled {
				t.Errorf("state %s", row.State)
			}
		})
	}
}

func TestAnIDThatExistsChangesNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	first := c.enqueue(t, welcome{UserID: 1})
	e, err := c.Enqueue(t.Context(), welcome{UserID: 2}, job.Options{ID: first})
	if err != nil || !e.Duplicate || e.ID != first {
		t.Fatalf("got %+v, %v", e, err)
	}
	row, err := c.Job(t.Context(), first)
	if err != nil || string(row.Payload) != `{"user_id":1}` {
		t.Errorf("got %s, %v", row.Payload, err)
	}
	// Not even once the job has ended, or a retry after a lost answer would run it twice.
	if err := c.Cancel(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Enqueue(t.Context(), welcome{UserID: 2}, job.Options{ID: first}); err != nil || !e.Duplicate {
		t.Errorf("after its end: got %+v, %v", e, err)
	}
	if n := c.count(t, "live", "true"); n != 0 {
		t.Errorf("%d live jobs", n)
	}
}

func TestNothingToEnqueueNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	c := nowhere(t)
	if got, err := c.EnqueueMany(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	// A context that has ended sends nothing (B104).
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the browser went away")
	cancel(reason)
	if _, err := c.Enqueue(ctx, welcome{}); !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	if _, err := c.EnqueueMany(ctx, []job.Spec{{Args: welcome{}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := c.InTx(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := c.pool.Stat().NewConnsCount(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
}
