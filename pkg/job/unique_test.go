package job_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirq/weir/pkg/job"
)

type address struct {
	City string `json:"city" weir:"unique"`
	Zip  string `json:"zip"`
}

type order struct {
	ID      int64    `json:"id" weir:"unique"`
	Note    string   `json:"note,omitempty"`
	Home    *address `json:"home"`
	Private string   `json:"-"`
}

func (order) Kind() string { return "order" }

type plainArgs struct{ A, B int }

func (plainArgs) Kind() string { return "plain" }

// keyOf returns the key of args by their content.
func keyOf(t rapid.TB, args job.Args) []byte {
	t.Helper()
	_, payload, err := job.Encode(args)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := job.Unique{ByArgs: true}.Hash(args, payload)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func raw(text string) job.Raw { return job.Raw{Name: "raw", Payload: json.RawMessage(text)} }

func TestArgsAreComparedByWhatTheyMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		a, b job.Args
		same bool
	}{
		{"the order of names", raw(`{"a":1,"b":[true,null]}`), raw(`{ "b" : [true, null], "a" : 1 }`), true},
		{"how a number is written", raw(`[1,10,0.5,-0,12e2]`), raw(`[1.0,1e1,5E-1,0,1200]`), true},
		{"how a text is written", raw(`"\u00e4<\n"`), raw("\"ä\\u003c\\u000a\""), true},
		{"integers beyond 2^53", raw(`9007199254740993`), raw(`9007199254740992`), false},
		{"a sign", raw(`1`), raw(`-1`), false},
		{"a power of ten", raw(`1`), raw(`10`), false},
		{"a text and a number", raw(`"1"`), raw(`1`), false},
		{"quotes within a text", raw(`["a","b"]`), raw(`["a\",\"b"]`), false},
		{"an absent name and null", raw(`{}`), raw(`{"a":null}`), false},
		{"numbers out of all bounds", raw(`1e99999999999`), raw(`1e99999999998`), false},
		{"fields without the tag", order{ID: 1, Note: "x", Home: &address{City: "Ulm", Zip: "1"}}, order{ID: 1, Home: &address{City: "Ulm"}}, true},
		{"a tagged field within", order{ID: 1, Home: &address{City: "Ulm"}}, order{ID: 1, Home: &address{City: "Bonn"}}, false},
		{"a pointer to args", order{ID: 1}, &order{ID: 1}, true},
		{"no tag at all", plainArgs{1, 2}, plainArgs{1, 3}, false},
	} {
		if same := bytes.Equal(keyOf(t, c.a), keyOf(t, c.b)); same != c.same {
			t.Errorf("%s: the same %v, want %v", c.name, same, c.same)
		}
	}
}

func TestAnyTwoWaysToWriteANumberAreTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{0,20}`).Draw(t, "digits")
		zeros := rapid.IntRange(0, 30).Draw(t, "zeros")
		a := digits + strings.Repeat("0", zeros)
		b := digits + "e" + strconv.Itoa(zeros)
		c := "0." + strings.Repeat("0", zeros) + digits + "E" + strconv.Itoa(2*zeros+len(digits))
		if !bytes.Equal(keyOf(t, raw(a)), keyOf(t, raw(b))) || !bytes.Equal(keyOf(t, raw(a)), keyOf(t, raw(c))) {
			t.Fatalf("%s, %s and %s differ", a, b, c)
		}
		if bytes.Equal(keyOf(t, raw(a)), keyOf(t, raw(a+"1"))) {
			t.Fatalf("%s and %s1 are the same", a, a)
		}
	})
}

func TestKeysOfTheTwoSortsStayApart(t *testing.T) {
	t.Parallel()
	byArgs := keyOf(t, raw(`"x"`))
	byKey, content, err := job.Unique{Key: `"x"`}.Hash(raw(`"x"`), []byte(`"x"`))
	if err != nil || bytes.Equal(byArgs, byKey) || bytes.Equal(byArgs, content) || len(byKey) != 32 {
		t.Errorf("%x, %x and %x, %v: want three of 32 bytes", byArgs, byKey, content, err)
	}
}

type misspelt struct {
	A int `weir:"uniqe"`
}

func (misspelt) Kind() string { return "misspelt" }

type hidden struct {
	A int `json:"-" weir:"unique"`
}

func (hidden) Kind() string { return "hidden" }

func TestATagThatCannotBeObeyedIsAFieldError(t *testing.T) {
	t.Parallel()
	for _, args := range []job.Args{misspelt{}, hidden{}} {
		_, payload, err := job.Encode(args)
		if err != nil {
			t.Fatal(err)
		}
		var field *job.FieldError
		if _, _, err := (job.Unique{ByArgs: true}).Hash(args, payload); !errors.As(err, &field) || field.Field != "Unique" {
			t.Errorf("%T: %v, want a FieldError of Unique", args, err)
		}
	}
}

func TestUniqueIsChecked(t *testing.T) {
	t.Parallel()
	for name, u := range map[string]job.Unique{
		"nothing to compare": {For: time.Hour}, "both": {Key: "k", ByArgs: true}, "a key too long": {Key: strings.Repeat("k", 256)},
		"a reserved key": {Key: "weir.k"}, "a NUL": {Key: "a\x00"}, "a window too short": {Key: "k", For: time.Microsecond},
		"a window too long": {Key: "k", For: job.MaxUniqueFor + 1}, "a negative window": {Key: "k", For: -1}, "an unknown While": {Key: "k", While: 2},
		"an unknown OnConflict": {Key: "k", OnConflict: -1}, "SameArgs and Replace": {Key: "k", SameArgs: true, OnConflict: job.Replace},
	} {
		var field *job.FieldError
		if _, err := (job.Options{Unique: u}).Complete(); !errors.As(err, &field) || field.Field != "Unique" {
			t.Errorf("%s: %v, want a FieldError of Unique", name, err)
		}
	}
	for _, u := range []job.Unique{{}, job.NotUnique, {Key: strings.Repeat("k", 255)}, {ByArgs: true, For: job.MaxUniqueFor, While: job.Waiting, OnConflict: job.Fail, SameArgs: true}} {
		if _, err := (job.Options{Unique: u}).Complete(); err != nil {
			t.Errorf("%+v: %v", u, err)
		}
	}
	base := job.Options{Unique: job.Unique{ByArgs: true}}
	if base.Merge(job.Options{Unique: job.NotUnique}).Unique.Applies() || !base.Merge(job.Options{}).Unique.Applies() {
		t.Error("NotUnique does not undo what the args type says, or nothing does")
	}
	var field *job.FieldError
	if _, err := (job.Options{OnDiscard: "a b"}).Complete(); !errors.As(err, &field) || field.Field != "OnDiscard" {
		t.Errorf("%v, want a FieldError of OnDiscard", err)
	}
}
