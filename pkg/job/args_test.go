package job_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirq/weir/pkg/job"
)

// welcome is Args as a program declares them.
type welcome struct {
	UserID int64  `json:"user_id"`
	Name   string `json:"name"`
}

func (welcome) Kind() string         { return "mail.welcome" }
func (welcome) Options() job.Options { return job.Options{Queue: "mail", MaxAttempts: 8} }

// number is Args that may have no JSON.
type number float64

func (number) Kind() string { return "number" }

// broken is Args whose MarshalJSON fails with a text that is no text.
type broken struct{}

func (broken) Kind() string                 { return "broken" }
func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New(strings.Repeat("\x00\xff", 1000)) }

func TestArgsEncodeToTheirKindAndJSON(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]job.Args{
		"a struct":    welcome{UserID: 7205759403792793601, Name: "Zoë"},
		"its pointer": &welcome{UserID: 7205759403792793601, Name: "Zoë"},
	} {
		kind, payload, err := job.Encode(args)
		wantNil(t, err)
		if want := `{"user_id":7205759403792793601,"name":"Zoë"}`; kind != "mail.welcome" || string(payload) != want {
			t.Errorf("%s: got %s %s, want mail.welcome %s", name, kind, payload, want)
		}
	}
}

func TestARawPayloadIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{
		"an escaped NUL in a value":        `{"k":"a\u0000b"}`,
		"an escaped NUL in a name":         `{"a\u0000":1}`,
		"a lone high surrogate":            `{"k":"\ud800"}`,
		"a lone low surrogate":             `{"k":"\udfff x"}`,
		"numbers that no float holds":      `{"id":7205759403792793601,"n":9007199254740993,"d":0.1234567890123456789,"e":1e400,"u":18446744073709551615}`,
		"a number of 100,000 digits":       strings.Repeat("9", 100_000),
		"white space and HTML":             " {\t\"a\" : \"<&>\u2028\" }\r\n",
		"names that come twice":            `{"a":1,"a":2}`,
		"an empty text":                    `""`,
		"null":                             `null`,
		"the noncharacter U+FFFF":          "\"\uffff\"",
		"a real U+FFFD":                    "\"\ufffd\"",
		"brackets within a text":           `"` + strings.Repeat(`[{\"`, 5000) + `"`,
		"many brackets beside one another": "[" + strings.Repeat("[],", 5000) + "[]]",
	} {
		raw := job.Raw{Name: "k", Payload: json.RawMessage(payload)}
		for _, args := range []job.Args{raw, &raw} {
			kind, got, err := job.Encode(args)
			wantNil(t, err)
			if kind != "k" || string(got) != payload {
				t.Errorf("%s: Encode(%T): got %s %.80q, want it unchanged", name, args, kind, got)
			}
		}
	}
}

func TestARawJobWithoutAPayloadHasAnEmptyObject(t *testing.T) {
	t.Parallel()
	for _, args := range []job.Args{job.Raw{Name: "k"}, &job.Raw{Name: "k", Payload: json.RawMessage{}}} {
		if _, payload, err := job.Encode(args); string(payload) != "{}" || err != nil {
			t.Errorf("Encode(%T): got %s, %v, want {}", args, payload, err)
		}
	}
	if b, err := json.Marshal(job.Raw{Name: "k"}); string(b) != "{}" || err != nil {
		t.Errorf("json.Marshal: got %s, %v, want {}", b, err)
	}
}

func TestBytesThatAreNotUTF8AreReplacedInArgsAndRefusedInRaw(t *testing.T) {
	t.Parallel()
	_, payload, err := job.Encode(welcome{Name: "D\xfcs"})
	wantNil(t, err)
	if want := `{"user_id":0,"name":"D\ufffds"}`; string(payload) != want {
		t.Errorf("args: got %s, want %s", payload, want)
	}
	_, _, err = job.Encode(job.Raw{Name: "k", Payload: json.RawMessage("{\"n\":\"D\xfcs\"}")})
	wantField(t, err, "payload", "UTF-8")
}

func TestArgsThatCannotBeAJobAreRefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args         job.Args
		field, limit string
	}{
		"nil":                       {nil, "args", "Kind"},
		"a nil pointer":             {(*welcome)(nil), "args", "Kind"},
		"a nil pointer to Raw":      {(*job.Raw)(nil), "args", "Kind"},
		"no kind":                   {job.Raw{}, "kind", "128"},
		"a bad kind":                {job.Raw{Name: "a b"}, "kind", "A-Z"},
		"no JSON for it":            {number(math.NaN()), "args", "encodes"},
		"an encoder that fails":     {broken{}, "args", "encodes"},
		"a text that is not JSON":   {job.Raw{Name: "k", Payload: json.RawMessage("{")}, "payload", "JSON"},
		"more than a MiB of fields": {welcome{Name: strings.Repeat("x", job.MaxPayloadBytes)}, "payload", "1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := job.Encode(c.args)
			wantField(t, err, c.field, c.limit)
			if err != nil && (strings.ContainsRune(err.Error(), 0) || !utf8.ValidString(err.Error())) {
				t.Errorf("got a text that cannot be stored: %q", err.Error())
			}
		})
	}
}

func TestOptionsOfArgsAreThoseOfTheirType(t *testing.T) {
	t.Parallel()
	if got := job.OptionsOf(welcome{}); got.Queue != "mail" || got.MaxAttempts != 8 {
		t.Errorf("got %+v, want those of the type", got)
	}
	for _, args := range []job.Args{nil, (*welcome)(nil), job.Raw{Name: "k"}, number(1)} {
		if got := job.OptionsOf(args); got.Queue != "" || got.MaxAttempts != 0 {
			t.Errorf("%T: got %+v, want none", args, got)
		}
	}
}

func nested(open, inner, end string, depth int) []byte {
	return []byte(strings.Repeat(open, depth) + inner + strings.Repeat(end, depth))
}

func TestPayloadsAreCheckedAtTheirLimits(t *testing.T) {
	t.Parallel()
	atSize := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), job.MaxPayloadBytes-2)...), '"')
	for name, c := range map[string]struct {
		payload []byte
		limit   string // "" means accepted
	}{
		"1 MiB":                               {atSize, ""},
		"1 MiB and a byte":                    {append(bytes.Clone(atSize), ' '), "1048576 bytes"},
		"64 MiB":                              {bytes.Repeat([]byte("1"), 64<<20), "1048576 bytes"},
		"500 arrays in one another":           {nested("[", "", "]", 500), ""},
		"501 arrays in one another":           {nested("[", "", "]", 501), "500 levels"},
		"500 objects in one another":          {nested(`{"a":`, "1", "}", 500), ""},
		"501 objects in one another":          {nested(`{"a":`, "1", "}", 501), "500 levels"},
		"a million arrays never closed":       {bytes.Repeat([]byte("["), 1<<20), "500 levels"},
		"brackets behind an escaped quote":    {[]byte(`"\"` + strings.Repeat("[", 501) + `"`), ""},
		"brackets behind an escaped slash":    {append([]byte(`["\\",`), append(nested("[", "", "]", 500), ']')...), "500 levels"},
		"nothing":                             {nil, "JSON"},
		"white space":                         {[]byte(" \n"), "JSON"},
		"two texts":                           {[]byte("{}{}"), "JSON"},
		"half a text":                         {[]byte(`{"a":`), "JSON"},
		"a real NUL in a text":                {[]byte("\"a\x00b\""), "JSON"},
		"a real newline in a text":            {[]byte("\"a\nb\""), "JSON"},
		"a byte order mark":                   {[]byte("\ufeff{}"), "JSON"},
		"NaN":                                 {[]byte("NaN"), "JSON"},
		"a comma too many":                    {[]byte("[1,]"), "JSON"},
		"an escape that is not one":           {[]byte(`"\x00"`), "JSON"},
		"a backslash at the end":              {[]byte(`"\`), "JSON"},
		"Latin-1":                             {[]byte("\"D\xfcs\""), "UTF-8"},
		"a surrogate as bytes":                {[]byte("\"\xed\xa0\x80\""), "UTF-8"},
		"an overlong NUL":                     {[]byte("\"\xc0\x80\""), "UTF-8"},
		"a byte above U+10FFFF":               {[]byte("\"\xf4\x90\x80\x80\""), "UTF-8"},
		"closing brackets before the opening": {[]byte(strings.Repeat("]", 600) + strings.Repeat("[", 600)), "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := job.ValidatePayload(c.payload)
			if c.limit == "" {
				wantNil(t, err)
			} else {
				wantField(t, err, "payload", c.limit)
			}
		})
	}
}

func FuzzPayload(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"k":"a\u0000b"}`, `"\ud800"`, "\"D\xfcs\"", `[[["\"]"]]]`, `1e400`, ` [1, 2 ] `, `"\`, `{"a":1}{`, "]][[",
		strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat("[", 501) + strings.Repeat("]", 501),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		sent := bytes.Clone(payload)
		fits := len(payload) <= job.MaxPayloadBytes && utf8.Valid(payload) && json.Valid(payload) && depth(payload) <= job.MaxPayloadDepth
		err := job.ValidatePayload(payload)
		if (err == nil) != fits {
			t.Fatalf("got %v, want accepted: %v", err, fits)
		}
		_, got, encodeErr := job.Encode(job.Raw{Name: "k", Payload: payload})
		switch {
		case err != nil && len(payload) > 0:
			wantField(t, err, "payload", "")
			wantField(t, encodeErr, "payload", "")
		case len(payload) > 0 && !bytes.Equal(got, sent):
			t.Errorf("got %q, want the bytes that were given", got)
		}
	})
}

// depth counts the nesting with the standard library's decoder, another way than the one under test. It is asked of
// valid JSON alone.
func depth(payload []byte) (deepest int) {
	if !json.Valid(payload) {
		return 0
	}
	d, at := json.NewDecoder(bytes.NewReader(payload)), 0
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			at++
		case json.Delim('}'), json.Delim(']'):
			at--
		}
		deepest = max(deepest, at)
	}
}
