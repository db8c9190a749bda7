package config_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/job"
)

func TestSchedulesAreReadWithAllTheirKeys(t *testing.T) {
	t.Parallel()
	const text = `
sweeper:
  schedules:
    - {name: nightly, cron: "0 3 * * *", zone: Europe/Berlin, kind: report.nightly, misfire: once}
    - name: Beat.eu
      every: 90s
      first_in: 1s
      kind: ops/beat
      payload:
        big: 12345678901234567890
        half: 2.50
        text: "a <b> & \u00e9"
        list: [1, null, true, {}, []]
      queue: ops
      priority: 2
      max_attempts: 1
      timeout: none
      expires_in: 1m
      tags: [a, "b c"]
      misfire: all
      misfire_cap: 7
      enabled: false
`
	want := []config.Schedule{
		{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Kind: "report.nightly", Payload: "{}", Misfire: "once"},
		{
			Name: "Beat.eu", Every: 90 * time.Second, FirstIn: time.Second, Kind: "ops/beat",
			Payload: `{"big":12345678901234567890,"half":2.50,"text":"a <b> & é","list":[1,null,true,{},[]]}`,
			Queue:   "ops", Priority: 2, MaxAttempts: 1, Timeout: job.NoTimeout, ExpiresIn: time.Minute, Tags: []string{"a", "b c"},
			Misfire: "all", MisfireCap: 7, Disabled: true,
		},
	}
	l := mustRead(t, text)
	if got := l.Config.Sweeper.Schedules; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	again := mustRead(t, "", "WEIR_SWEEPER_SCHEDULES="+value(t, l, "sweeper.schedules").Value)
	if got := again.Config.Sweeper.Schedules; !reflect.DeepEqual(got, want) {
		t.Errorf("printed and read again: %+v", got)
	}
	if got := mustRead(t, "sweeper: {schedules: []}"); len(got.Config.Sweeper.Schedules) != 0 || got.Source("sweeper.schedules") != "weir.yaml:1" {
		t.Errorf("an empty list: %v from %q", got.Config.Sweeper.Schedules, got.Source("sweeper.schedules"))
	}
}

func TestAWrongScheduleIsAnErrorThatNamesItsKeyAndLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry string
		parts []string
	}{
		"an unknown key":         {"{name: a, crom: '@daily', kind: k}", []string{"weir.yaml:3", "sweeper.schedules[1].crom", "unknown key", "cron"}},
		"no name":                {"{cron: '@daily', kind: k}", []string{"sweeper.schedules[1].name", "missing"}},
		"no kind":                {"{name: a, cron: '@daily'}", []string{"sweeper.schedules[1].kind", "missing"}},
		"neither cron nor every": {"{name: a, kind: k}", []string{"sweeper.schedules[1].cron", "empty"}},
		"both":                   {"{name: a, cron: '@daily', every: 5s, kind: k}", []string{"sweeper.schedules[1].every", "together"}},
		"the same name":          {"{name: first, every: 5s, kind: k}", []string{"weir.yaml:3", "sweeper.schedules[1]", "twice", "weir.yaml:2"}},
		"30 February":            {"{name: a, cron: '0 0 30 2 *', kind: k}", []string{"sweeper.schedules[1].cron", "exists"}},
		"a bad field":            {"{name: a, cron: '60 * * * *', kind: k}", []string{"sweeper.schedules[1].cron", "60"}},
		"an unknown zone":        {"{name: a, cron: '@daily', zone: No/Where, kind: k}", []string{"sweeper.schedules[1].zone", "No/Where"}},
		"a zone for an interval": {"{name: a, every: 5s, zone: UTC, kind: k}", []string{"sweeper.schedules[1].zone"}},
		"no unit":                {"{name: a, every: 60, kind: k}", []string{"sweeper.schedules[1].every", "unit"}},
		"too often":              {"{name: a, every: 10ms, kind: k}", []string{"sweeper.schedules[1].every", "range"}},
		"too seldom":             {"{name: a, every: 292000d, kind: k}", []string{"sweeper.schedules[1].every"}},
		"first_in with cron":     {"{name: a, cron: '@daily', first_in: 1s, kind: k}", []string{"sweeper.schedules[1].first_in"}},
		"an unknown policy":      {"{name: a, every: 5s, misfire: al, kind: k}", []string{"sweeper.schedules[1].misfire", "all"}},
		"too many to make up":    {"{name: a, every: 5s, misfire_cap: 1001, kind: k}", []string{"sweeper.schedules[1].misfire_cap", "1000"}},
		"a bad kind":             {"{name: a, every: 5s, kind: 'a b'}", []string{"sweeper.schedules[1].kind"}},
		"a hexadecimal number":   {"{name: a, every: 5s, kind: k, payload: {n: 0x10}}", []string{"sweeper.schedules[1].payload", "decimal"}},
		"infinity":               {"{name: a, every: 5s, kind: k, payload: {n: .inf}}", []string{"sweeper.schedules[1].payload"}},
		"a key twice":            {"{name: a, every: 5s, kind: k, payload: {n: 1, n: 2}}", []string{"sweeper.schedules[1].payload", "twice"}},
		"a date":                 {"{name: a, every: 5s, kind: k, payload: {n: 2026-01-01}}", []string{"sweeper.schedules[1].payload", "quotes"}},
		"an anchor":              {"{name: a, every: 5s, kind: k, payload: &x {n: 1}}", []string{"sweeper.schedules[1].payload", "anchor"}},
		"a word for enabled":     {"{name: a, every: 5s, kind: k, enabled: 'false'}", []string{"sweeper.schedules[1].enabled", "true or false"}},
		"a word for tags":        {"{name: a, every: 5s, kind: k, tags: x}", []string{"sweeper.schedules[1].tags", "list"}},
		"a word":                 {"daily", []string{"sweeper.schedules[1]", "must be {name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read("sweeper: {schedules: [\n{name: first, every: 1m, kind: k},\n" + c.entry + "]}")
			wantError(t, err, c.parts...)
			_, err = read("", "WEIR_SWEEPER_SCHEDULES=[{name: first, every: 1m, kind: k}, "+c.entry+"]")
			wantError(t, err, "WEIR_SWEEPER_SCHEDULES", "sweeper.schedules")
		})
	}
}
