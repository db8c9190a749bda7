package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/pkg/job"
	"pgregory.net/rapid"
)

// odd are names that a store or a tool might take apart.
var odd = []string{
	"a", "account:42", "a:b", "a\nb", "\t", " ", "{x}", "a{b", "}", "*", "tenant:*", "?", "[a]", `\`, `"`, "'", "é", "e\u0301", "😀", "5/1000/1 a",
	"https://h/p?x=1", "weir", "Weir.x", "weir:x", "\x01", "\u202e", strings.Repeat("k", 255), strings.Repeat("é", 127),
}

func TestKeysTakeAnyNameOfUpTo255BytesOfUTF8(t *testing.T) {
	t.Parallel()
	for _, name := range odd {
		wantNil(t, job.ValidateKey(name))
		_, err := job.Options{Keys: []job.Key{job.Mutex(name), job.Rate(name, 1, time.Second)}}.Complete() // two name spaces
		wantNil(t, err)
	}
	for name, limit := range map[string]string{
		"": "255 bytes", "a\x00b": "NUL", "\xff": "UTF-8", "k\xed\xa0\x80": "UTF-8", strings.Repeat("k", 256): "255 bytes",
		strings.Repeat("é", 128): "255 bytes", strings.Repeat("0123456789abcdef", 700): "255 bytes", "weir.": "reserved", "weir.queue.mail": "reserved",
	} {
		wantField(t, job.ValidateKey(name), "key", limit)
		for _, k := range []job.Key{job.Mutex(name), job.Limit(name, 3), job.Rate(name, 1, time.Second)} {
			_, err := job.Options{Keys: []job.Key{k}}.Complete()
			wantField(t, err, "Keys", limit)
		}
		wantField(t, job.RateBackoff(name, time.Second), "RateBackoff", limit)
	}
}

func mutexes(n int) (keys []job.Key) {
	for i := range n {
		keys = append(keys, job.Mutex(fmt.Sprint("k", i)))
	}
	return keys
}

func TestKeysAreCheckedAtTheirLimits(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, c := range map[string]struct {
		options      job.Options
		field, limit string
	}{
		"8 keys":                       {job.Options{Keys: mutexes(8)}, "", ""},
		"9 keys":                       {job.Options{Keys: mutexes(9)}, "Keys", "8 keys"},
		"8 locks and a rate":           {job.Options{Keys: append(mutexes(8), job.Rate("r", 1, second))}, "Keys", "8 keys"},
		"no keys":                      {job.Options{Keys: []job.Key{}}, "", ""},
		"the zero key":                 {job.Options{Keys: []job.Key{{}}}, "Keys", "1 to 255"},
		"a limit of 0":                 {job.Options{Keys: []job.Key{job.Limit("a", 0)}}, "Keys", "1 to 100000"},
		"a limit of -1":                {job.Options{Keys: []job.Key{job.Limit("a", -1)}}, "Keys", "1 to 100000"},
		"a limit of 100,000":           {job.Options{Keys: []job.Key{job.Limit("a", 100_000)}}, "", ""},
		"a limit of 100,001":           {job.Options{Keys: []job.Key{job.Limit("a", 100_001)}}, "Keys", "1 to 100000"},
		"a limit that would wrap":      {job.Options{Keys: []job.Key{job.Limit("a", math.MaxInt32+2)}}, "Keys", "1 to 100000"},
		"a rate of 0":                  {job.Options{Keys: []job.Key{job.Rate("a", 0, second)}}, "Keys", "1 to 100000"},
		"a rate of 1e9":                {job.Options{Keys: []job.Key{job.Rate("a", 1e9, second)}}, "Keys", "1 to 100000"},
		"a rate per 0":                 {job.Options{Keys: []job.Key{job.Rate("a", 1, 0)}}, "Keys", "1ms"},
		"a rate per -1 s":              {job.Options{Keys: []job.Key{job.Rate("a", 1, -second)}}, "Keys", "1ms"},
		"a rate per 1 ms":              {job.Options{Keys: []job.Key{job.Rate("a", 1, time.Millisecond)}}, "", ""},
		"a rate per 1.5 ms":            {job.Options{Keys: []job.Key{job.Rate("a", 1, 1500*time.Microsecond)}}, "Keys", "whole milliseconds"},
		"a rate per 24 h":              {job.Options{Keys: []job.Key{job.Rate("a", 1, 24*time.Hour)}}, "", ""},
		"a rate per more than 24 h":    {job.Options{Keys: []job.Key{job.Rate("a", 1, 24*time.Hour+time.Millisecond)}}, "Keys", "24h"},
		"a weight of 0":                {job.Options{Keys: []job.Key{job.Rate("a", 9, second).Weight(0)}}, "Keys", "weights from 1"},
		"a weight of all":              {job.Options{Keys: []job.Key{job.Rate("a", 9, second).Weight(9)}}, "", ""},
		"a weight above all":           {job.Options{Keys: []job.Key{job.Rate("a", 9, second).Weight(10)}}, "Keys", "weights from 1"},
		"a lock with a weight":         {job.Options{Keys: []job.Key{job.Mutex("a").Weight(1)}}, "Keys", "rates alone"},
		"a lock twice":                 {job.Options{Keys: []job.Key{job.Mutex("a"), job.Mutex("b"), job.Limit("a", 5)}}, "Keys", "each name once"},
		"a rate twice":                 {job.Options{Keys: []job.Key{job.Rate("a", 1, second), job.Rate("a", 1, second)}}, "Keys", "each name once"},
		"a lock and a rate of a name":  {job.Options{Keys: []job.Key{job.Mutex("a"), job.Rate("a", 1, second)}}, "", ""},
		"a lock without a timeout":     {job.Options{Keys: []job.Key{job.Mutex("a")}, Timeout: job.NoTimeout}, "Timeout", "a timeout"},
		"a rate without a timeout":     {job.Options{Keys: []job.Key{job.Rate("a", 1, second)}, Timeout: job.NoTimeout}, "", ""},
		"no keys and without timeout":  {job.Options{Keys: []job.Key{}, Timeout: job.NoTimeout}, "", ""},
		"names that differ by a space": {job.Options{Keys: []job.Key{job.Mutex("a"), job.Mutex("a "), job.Mutex(" a")}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCompleted(t, c.options, c.field, c.limit)
		})
	}
}

func TestTheStoredFormOfKeysIsSortedAndSmall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys   []job.Key
		locks  []string
		limits []int32
		rates  []string
	}{
		"none":    {nil, nil, nil, nil},
		"empty":   {[]job.Key{}, nil, nil, nil},
		"mutexes": {[]job.Key{job.Mutex("b"), job.Limit("a", 1)}, []string{"a", "b"}, nil, nil},
		"limits":  {[]job.Key{job.Mutex("b"), job.Limit("é", 3), job.Limit("Z", 2)}, []string{"Z", "b", "é"}, []int32{2, 1, 3}, nil},
		"rates": {[]job.Key{job.Rate("b c", 9, time.Minute), job.Rate("a\n", 100, time.Second).Weight(3)}, nil, nil,
			[]string{"100/1000/3 a\n", "9/60000/1 b c"}},
		"both": {[]job.Key{job.Rate("a", 1, time.Second), job.Mutex("a")}, []string{"a"}, nil, []string{"1/1000/1 a"}},
	} {
		locks, limits, rates := job.SplitKeys(c.keys)
		if !reflect.DeepEqual(locks, c.locks) || !reflect.DeepEqual(limits, c.limits) || !reflect.DeepEqual(rates, c.rates) {
			t.Errorf("%s: got %q %v %q, want %q %v %q", name, locks, limits, rates, c.locks, c.limits, c.rates)
		}
	}
}

// drawKeys draws keys that a job may have.
func drawKeys(rt *rapid.T) (keys []job.Key) {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(odd), 0, job.MaxKeys, rapid.ID[string]).Draw(rt, "names")
	for _, name := range names {
		n := rapid.IntRange(1, job.MaxKeyLimit).Draw(rt, "n")
		if rapid.Bool().Draw(rt, "rate") {
			per := time.Duration(rapid.Int64Range(1, job.MaxRatePer.Milliseconds()).Draw(rt, "per")) * time.Millisecond
			keys = append(keys, job.Rate(name, n, per).Weight(rapid.IntRange(1, n).Draw(rt, "weight")))
			continue
		}
		keys = append(keys, job.Limit(name, n))
	}
	return keys
}

func TestKeysComeBackFromTheirStoredForms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		keys := drawKeys(rt)
		if _, err := (job.Options{Keys: keys}).Complete(); err != nil {
			rt.Fatalf("%v: %v", keys, err)
		}
		got := job.JoinKeys(job.SplitKeys(keys))
		slices.SortFunc(keys, func(a, b job.Key) int {
			if a.IsRate() != b.IsRate() {
				return map[bool]int{false: -1, true: 1}[a.IsRate()]
			}
			return strings.Compare(a.Name(), b.Name())
		})
		if !slices.Equal(got, keys) {
			rt.Fatalf("got %v, want %v", got, keys)
		}
		text, err := json.Marshal(keys)
		var back []job.Key
		if err != nil || json.Unmarshal(text, &back) != nil || !slices.Equal(back, keys) {
			rt.Fatalf("through JSON %s: got %v, want %v", text, back, keys)
		}
	})
}

func TestAKeyIsShownInWordsAndInJSON(t *testing.T) {
	t.Parallel()
	for want, k := range map[string]job.Key{
		`account:42 (mutex) {"key":"account:42","limit":1}`:                                            job.Mutex("account:42"),
		`tenant:7 (limit 5) {"key":"tenant:7","limit":5}`:                                              job.Limit("tenant:7", 5),
		`stripe (rate 100 per 1s) {"rate":"stripe","limit":100,"per_ms":1000,"weight":1}`:              job.Rate("stripe", 100, time.Second),
		`stripe (rate 100 per 1m0s, weight 3) {"rate":"stripe","limit":100,"per_ms":60000,"weight":3}`: job.Rate("stripe", 100, time.Minute).Weight(3),
	} {
		text, err := json.Marshal(k)
		if got := k.String() + " " + string(text); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	var k job.Key
	if err := json.Unmarshal([]byte(`{"key":1}`), &k); err == nil {
		t.Error("a key whose name is a number was read")
	}
}

func TestARateThatWasChangedByHandIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a", "1/1000/1", "1/1000 a", "1/1000/1/1 a", "0/1000/1 a", "x/1000/1 a", "1/-1/1 a", "1/1000/99999999999999999999 a", "1/86400001/1 a"} {
		if k, ok := job.ParseRate(text); ok {
			t.Errorf("%q was read as %v", text, k)
		}
	}
	if got := job.JoinKeys([]string{"a", "b"}, []int32{7}, []string{"?", "1/1000/1 r"}); len(got) != 3 || got[0].N() != 7 || got[1].N() != 1 || got[2].Name() != "r" {
		t.Errorf("got %v", got)
	}
}

func TestRateBackoffIsFoundAgainWithinItsBounds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		0: time.Second, -time.Hour: time.Second, math.MinInt64: time.Second, 1: time.Millisecond, time.Minute: time.Minute, math.MaxInt64: 24 * time.Hour,
	} {
		var e *job.RateBackoffError
		err := fmt.Errorf("call: %w", job.RateBackoff("stripe", d))
		if !errors.As(err, &e) || e.Key != "stripe" || e.Delay != want || !strings.Contains(err.Error(), want.String()) {
			t.Errorf("%v: got %#v, %v, want %v", d, e, err, want)
		}
	}
	if text := job.RateBackoff("a\x01b", time.Second).Error(); !strings.Contains(text, "a\x01b") {
		t.Errorf("got %q", text) // whoever shows it escapes it, as with every name
	}
}

func FuzzKeys(f *testing.F) {
	for _, s := range append(odd, "weir.x", "\xff", "a\x00") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fits := name != "" && len(name) <= job.MaxKeyBytes && utf8.ValidString(name) && !strings.Contains(name, "\x00") && !strings.HasPrefix(name, "weir.")
		if err := job.ValidateKey(name); (err == nil) != fits {
			t.Errorf("key %q: got %v, want accepted: %v", name, err, fits)
		}
		if !fits {
			return
		}
		_, _, rates := job.SplitKeys([]job.Key{job.Rate(name, 5, time.Second).Weight(2)})
		if k, ok := job.ParseRate(rates[0]); !ok || k.Name() != name || k.N() != 5 || k.Cost() != 2 || k.Per() != time.Second {
			t.Errorf("%q came back as %v", name, k)
		}
	})
}
