package job_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/job"
)

var (
	someTime  = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC) // the last that every time zone shows with four digits
	allFields = job.Options{
		ID: job.ID{1}, Queue: "a", Priority: 2, Delay: time.Second, ExpiresIn: time.Minute, MaxAttempts: 3,
		Unique: job.Unique{Key: "a"}, OnDiscard: "a.failed",
		Timeout: time.Hour, Backoff: job.Fixed(time.Second), Keys: []job.Key{job.Mutex("a")}, Mode: job.Forked, Tags: []string{"a"}, Metadata: map[string]string{"a": "1"},
	}
)

func TestTheLimitsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ got, want int }{
		"priority":        {job.MaxPriority, 9},
		"default":         {job.DefaultPriority, 5},
		"attempts":        {job.DefaultMaxAttempts, 25},
		"no retry":        {job.NoRetry, 1},
		"payload":         {job.MaxPayloadBytes, 1024 * 1024},
		"result":          {job.MaxResultBytes, 64 * 1024},
		"error text":      {job.MaxErrorBytes, 16 * 1024},
		"stack":           {job.MaxStackBytes, 16 * 1024},
		"jobs a call":     {job.MaxBatch, 10_000},
		"a name":          {job.MaxNameBytes, 128},
		"default timeout": {int(job.DefaultTimeout), int(time.Hour)},
		"keys":            {job.MaxKeys, 8},
		"a key":           {job.MaxKeyBytes, 255},
		"longest backoff": {int(job.MaxBackoff), int(24 * time.Hour)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, want %d", name, c.got, c.want)
		}
	}
	if job.DefaultQueue != "default" {
		t.Errorf("got default queue %q, want default", job.DefaultQueue)
	}
}

func TestOptionsThatSayNothingGetTheDefaults(t *testing.T) {
	t.Parallel()
	got, err := job.Options{}.Complete()
	wantNil(t, err)
	// Timeout and Backoff stay unsaid: the handler's apply.
	if want := (job.Options{Queue: "default", Priority: 5, MaxAttempts: 25}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	again, err := got.Complete()
	wantNil(t, err)
	if !reflect.DeepEqual(again, got) {
		t.Errorf("completed twice: got %+v, want %+v", again, got)
	}
}

func TestALaterFieldThatIsSaidWins(t *testing.T) {
	t.Parallel()
	at := job.Options{ScheduledAt: someTime}
	for name, c := range map[string]struct{ base, over, want job.Options }{
		"nothing over all":                  {allFields, job.Options{}, allFields},
		"all over nothing":                  {job.Options{}, allFields, allFields},
		"an id":                             {job.Options{ID: job.ID{1}}, job.Options{ID: job.ID{2}}, job.Options{ID: job.ID{2}}},
		"a queue":                           {job.Options{Queue: "a"}, job.Options{Queue: "b"}, job.Options{Queue: "b"}},
		"a priority beside a queue":         {job.Options{Queue: "a", Priority: 1}, job.Options{Priority: 9}, job.Options{Queue: "a", Priority: 9}},
		"a wrong priority is not forgotten": {job.Options{Priority: 3}, job.Options{Priority: -1}, job.Options{Priority: -1}},
		"attempts":                          {job.Options{MaxAttempts: 8}, job.Options{MaxAttempts: job.NoRetry}, job.Options{MaxAttempts: 1}},
		"no timeout":                        {job.Options{Timeout: time.Hour}, job.Options{Timeout: job.NoTimeout}, job.Options{Timeout: job.NoTimeout}},
		"an expiry":                         {job.Options{ExpiresIn: 1}, job.Options{ExpiresIn: 2}, job.Options{ExpiresIn: 2}},
		"a backoff":                         {job.Options{Backoff: job.Polynomial()}, job.Options{Backoff: job.Fixed(time.Second)}, job.Options{Backoff: job.Fixed(time.Second)}},
		"an instant over a delay":           {job.Options{Delay: time.Hour}, at, at},
		"a delay over an instant":           {at, job.Options{Delay: time.Hour}, job.Options{Delay: time.Hour}},
		"a wrong delay over an instant":     {at, job.Options{Delay: -1}, job.Options{Delay: -1}},
		"tags are replaced whole":           {job.Options{Tags: []string{"a", "b"}}, job.Options{Tags: []string{"c"}}, job.Options{Tags: []string{"c"}}},
		"empty tags take them away":         {job.Options{Tags: []string{"a"}}, job.Options{Tags: []string{}}, job.Options{Tags: []string{}}},
		"keys are replaced whole":           {job.Options{Keys: []job.Key{job.Mutex("a"), job.Mutex("b")}}, job.Options{Keys: []job.Key{job.Limit("a", 2)}}, job.Options{Keys: []job.Key{job.Limit("a", 2)}}},
		"empty keys take them away":         {job.Options{Keys: []job.Key{job.Mutex("a")}}, job.Options{Keys: []job.Key{}}, job.Options{Keys: []job.Key{}}},
		"metadata is replaced whole": {
			job.Options{Metadata: map[string]string{"a": "1"}}, job.Options{Metadata: map[string]string{"b": "2"}},
			job.Options{Metadata: map[string]string{"b": "2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.base.Merge(c.over); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMergeKnowsEveryField(t *testing.T) {
	t.Parallel()
	over := reflect.ValueOf(allFields)
	for i := range over.NumField() {
		field := over.Type().Field(i)
		only := reflect.New(over.Type()).Elem()
		only.Field(i).Set(over.Field(i))
		if field.Name == "ScheduledAt" {
			only.Field(i).Set(reflect.ValueOf(someTime))
		}
		if only.Field(i).IsZero() {
			t.Errorf("%s: this test knows no value for it", field.Name)
		}
		got := job.Options{}.Merge(only.Interface().(job.Options))
		if !reflect.DeepEqual(got, only.Interface()) {
			t.Errorf("%s: got %+v, want %+v", field.Name, got, only.Interface())
		}
	}
}

func TestAValueAtItsLimitIsAcceptedAndOneBeyondRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options      job.Options
		field, limit string // "" means accepted
	}{
		"priority 1":                    {job.Options{Priority: 1}, "", ""},
		"priority 9":                    {job.Options{Priority: 9}, "", ""},
		"priority 10":                   {job.Options{Priority: 10}, "Priority", "1 to 9"},
		"priority -1":                   {job.Options{Priority: -1}, "Priority", "1 to 9"},
		"priority that would wrap":      {job.Options{Priority: 1<<16 + 1}, "Priority", "1 to 9"},
		"1 attempt":                     {job.Options{MaxAttempts: job.NoRetry}, "", ""},
		"10,000 attempts":               {job.Options{MaxAttempts: 10_000}, "", ""},
		"10,001 attempts":               {job.Options{MaxAttempts: 10_001}, "MaxAttempts", "1 to 10000"},
		"-1 attempts":                   {job.Options{MaxAttempts: -1}, "MaxAttempts", "1 to 10000"},
		"attempts that would wrap":      {job.Options{MaxAttempts: math.MaxInt32 + 2}, "MaxAttempts", "1 to 10000"},
		"a timeout of 1 ms":             {job.Options{Timeout: time.Millisecond}, "", ""},
		"a timeout below 1 ms":          {job.Options{Timeout: time.Millisecond - 1}, "Timeout", "1ms"},
		"no timeout":                    {job.Options{Timeout: job.NoTimeout}, "", ""},
		"a timeout of -2 ns":            {job.Options{Timeout: -2}, "Timeout", "NoTimeout"},
		"the least timeout":             {job.Options{Timeout: math.MinInt64}, "Timeout", "NoTimeout"},
		"the longest timeout":           {job.Options{Timeout: math.MaxInt64}, "", ""},
		"the shortest delay":            {job.Options{Delay: 1}, "", ""},
		"a delay of -1 ns":              {job.Options{Delay: -1}, "Delay", "0 or more"},
		"a delay of -1 h":               {job.Options{Delay: -time.Hour}, "Delay", "0 or more"},
		"a delay before 1970":           {job.Options{Delay: -time.Duration(time.Now().UnixNano()) - 1}, "Delay", "0 or more"},
		"the least delay":               {job.Options{Delay: math.MinInt64}, "Delay", "0 or more"},
		"a delay of 24 d":               {job.Options{Delay: 24 * 24 * time.Hour}, "", ""},
		"a delay of 25 d":               {job.Options{Delay: 25 * 24 * time.Hour}, "", ""}, // beyond 2^31 ms
		"a delay of 50 d":               {job.Options{Delay: 50 * 24 * time.Hour}, "", ""}, // beyond 2^32 ms
		"the longest delay":             {job.Options{Delay: math.MaxInt64}, "", ""},       // 292 years
		"a delay and an instant":        {job.Options{Delay: 1, ScheduledAt: someTime}, "Delay", "one of the two"},
		"the first instant after zero":  {job.Options{ScheduledAt: time.Time{}.Add(1)}, "", ""},
		"an instant before 1970":        {job.Options{ScheduledAt: time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)}, "", ""},
		"the year -4000":                {job.Options{ScheduledAt: time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)}, "", ""},
		"the year -300000":              {job.Options{ScheduledAt: time.Date(-300_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "", ""},
		"the last instant":              {job.Options{ScheduledAt: lastTime}, "", ""},
		"1 ns after the last instant":   {job.Options{ScheduledAt: lastTime.Add(1)}, "ScheduledAt", "9999-12-31"},
		"year 9999 here, 10000 in UTC":  {job.Options{ScheduledAt: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -5*3600))}, "ScheduledAt", "9999-12-31"},
		"the year 10000":                {job.Options{ScheduledAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "ScheduledAt", "9999-12-31"},
		"the year 294276":               {job.Options{ScheduledAt: time.Date(294_276, 1, 1, 0, 0, 0, 0, time.UTC)}, "ScheduledAt", "9999-12-31"},
		"the year 300000":               {job.Options{ScheduledAt: time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "ScheduledAt", "9999-12-31"},
		"the shortest expiry":           {job.Options{ExpiresIn: 1}, "", ""},
		"an expiry of -1 ns":            {job.Options{ExpiresIn: -1}, "ExpiresIn", "0 or more"},
		"the least expiry":              {job.Options{ExpiresIn: math.MinInt64}, "ExpiresIn", "0 or more"},
		"the longest of both":           {job.Options{Delay: math.MaxInt64, ExpiresIn: math.MaxInt64}, "", ""},
		"an expiry at the last instant": {job.Options{ScheduledAt: lastTime.Add(-time.Hour), ExpiresIn: time.Hour}, "", ""},
		"an expiry after it":            {job.Options{ScheduledAt: lastTime.Add(-time.Hour), ExpiresIn: time.Hour + 1}, "ExpiresIn", "9999-12-31"},
		"a backoff of 24 h":             {job.Options{Backoff: job.Fixed(24 * time.Hour)}, "", ""},
		"a backoff above 24 h":          {job.Options{Backoff: job.Fixed(24*time.Hour + 1)}, "Backoff", "24h"},
		"a backoff of 1 ms":             {job.Options{Backoff: job.Fixed(time.Millisecond)}, "", ""},
		"a backoff below 1 ms":          {job.Options{Backoff: job.Fixed(time.Millisecond - 1)}, "Backoff", "1ms"},
		"a backoff of 0":                {job.Options{Backoff: job.Fixed(0)}, "Backoff", "1ms"},
		"a base above the cap":          {job.Options{Backoff: job.Exponential(time.Hour, time.Minute)}, "Backoff", "base <= cap"},
		"a base at the cap":             {job.Options{Backoff: job.Exponential(time.Minute, time.Minute)}, "", ""},
		"a cap above 24 h":              {job.Options{Backoff: job.Exponential(time.Second, math.MaxInt64)}, "Backoff", "24h"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCompleted(t, c.options, c.field, c.limit)
		})
	}
}

func checkCompleted(t *testing.T, options job.Options, field, limit string) {
	t.Helper()
	got, err := options.Complete()
	if field != "" {
		wantField(t, err, field, limit)
		return
	}
	wantNil(t, err)
	if want := (job.Options{Queue: "default", Priority: 5, MaxAttempts: 25}).Merge(options); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want what was said and the defaults: %+v", got, want)
	}
}

func entries(n int, value string) map[string]string {
	m := make(map[string]string)
	for i := range n {
		m[fmt.Sprint("name", i)] = value
	}
	return m
}

func TestTagsAndMetadataAreCheckedAtTheirLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options      job.Options
		field, limit string
	}{
		"32 tags":                       {job.Options{Tags: strings.Split(strings.Repeat("t,", 31)+"t", ",")}, "", ""},
		"33 tags":                       {job.Options{Tags: strings.Split(strings.Repeat("t,", 32)+"t", ",")}, "Tags", "32 tags"},
		"a tag of 128 bytes":            {job.Options{Tags: []string{strings.Repeat("é", 64)}}, "", ""},
		"a tag of 129 bytes":            {job.Options{Tags: []string{"a", strings.Repeat("é", 64) + "t"}}, "Tags", "128 bytes"},
		"an empty tag":                  {job.Options{Tags: []string{""}}, "Tags", "128 bytes"},
		"a tag with NUL":                {job.Options{Tags: []string{"a\x00"}}, "Tags", "control"},
		"32 entries of 1024 bytes":      {job.Options{Metadata: entries(32, strings.Repeat("é", 512))}, "", ""},
		"33 entries":                    {job.Options{Metadata: entries(33, "")}, "Metadata", "32 entries"},
		"a value of 1025 bytes":         {job.Options{Metadata: entries(1, strings.Repeat("v", 1025))}, "Metadata", "1024 bytes"},
		"a value with NUL":              {job.Options{Metadata: entries(1, "v\x00")}, "Metadata", "control"},
		"a value that is not UTF-8":     {job.Options{Metadata: entries(1, "D\xfcs")}, "Metadata", "UTF-8"},
		"a metadata name of 128 bytes":  {job.Options{Metadata: map[string]string{strings.Repeat("n", 128): "v"}}, "", ""},
		"a metadata name of 129 bytes":  {job.Options{Metadata: map[string]string{strings.Repeat("n", 129): "v"}}, "Metadata", "128 bytes"},
		"an empty metadata name":        {job.Options{Metadata: map[string]string{"": "v"}}, "Metadata", "128 bytes"},
		"a metadata name with newlines": {job.Options{Metadata: map[string]string{"a\nb": "v"}}, "Metadata", "control"},
		"no tags and no metadata":       {job.Options{Tags: []string{}, Metadata: map[string]string{}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCompleted(t, c.options, c.field, c.limit)
		})
	}
}

func TestMetadataThatIsNoObjectOfTextsIsNone(t *testing.T) {
	t.Parallel()
	if got := job.DecodeMetadata([]byte(`{"a":"1","b":""}`)); !reflect.DeepEqual(got, map[string]string{"a": "1", "b": ""}) {
		t.Errorf("got %v, want both entries", got)
	}
	for _, text := range []string{"", "null", "[]", `"a"`, `{"a":1}`, `{"a":"1","b":{}}`, `{"a":"1"`, "\x00"} {
		if got := job.DecodeMetadata([]byte(text)); got != nil {
			t.Errorf("%q: got %v, want none", text, got)
		}
	}
}
