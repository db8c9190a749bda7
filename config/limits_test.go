package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/config"
)

func TestLimitsOfKeysAndQueuesAreReadFromBothForms(t *testing.T) {
	t.Parallel()
	wantLimits := []config.Limit{
		{Name: "tenant:", Prefix: true, Limit: 3}, {Name: "Account.42"}, {Name: "", Prefix: true, Limit: 100_000},
		{Name: "stripe", Rate: true, Limit: 100, Per: time.Second}, {Name: "stripe", Limit: 1},
	}
	wantQueues := []config.QueueLimit{
		{Name: "mail", Limit: 40, Rate: 200, Per: time.Second}, {Name: "B", Limit: 1}, {Name: "c d", Rate: 5, Per: 90 * time.Second},
	}
	file := mustRead(t, `
limits:
  - {key: "tenant:*", limit: 3}
  - {key: Account.42, limit: 0}
  - {key: "*", limit: 100000}
  - {rate: stripe, limit: 100, per: 1s}
  - {key: stripe, limit: 1}
queues:
  - {name: mail, limit: 40, rate: {limit: 200, per: 1s}}
  - {name: B, limit: 1}
  - {name: c d, rate: {limit: 5, per: 1m30s}}
`)
	env := mustRead(t, "", "WEIR_LIMITS=tenant:*=3, Account.42=0,*=100000,stripe=100/s,stripe=1", "WEIR_QUEUES=mail=40+200/s,B=1,c d=5/90s")
	for name, l := range map[string]*config.Loaded{"file": file, "environment": env} {
		if !reflect.DeepEqual(l.Config.Limits, wantLimits) {
			t.Errorf("%s: got %+v, want %+v", name, l.Config.Limits, wantLimits)
		}
		if !reflect.DeepEqual(l.Config.Queues, wantQueues) {
			t.Errorf("%s: got %+v, want %+v", name, l.Config.Queues, wantQueues)
		}
	}
}

func TestAnEmptyListOfLimitsIsSaidAndNoListIsNot(t *testing.T) {
	t.Parallel()
	said := mustRead(t, "limits: []\nqueues: []")
	if said.Source("limits") != "weir.yaml:1" || said.Source("queues") != "weir.yaml:2" || len(said.Config.Limits) != 0 {
		t.Errorf("got %q, %q", said.Source("limits"), said.Source("queues"))
	}
	if l := mustRead(t, ""); l.Source("limits") != "default" || l.Source("queues") != "default" {
		t.Errorf("got %q, %q", l.Source("limits"), l.Source("queues"))
	}
}

func TestLimitsThatCannotBeAreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 256)
	for text, want := range map[string][]string{
		"limits: {tenant: 3}":                                          {"limits", "a section", "list of"},
		"limits: [tenant]":                                             {"limits[0]", "text", "{key"},
		"limits: [{limit: 3}]":                                         {"limits[0]", "neither key nor rate"},
		"limits: [{key: a}]":                                           {"limits[0].limit", "missing"},
		"limits: [{key: a, limt: 3}]":                                  {"limits[0].limt", "did you mean limit"},
		"limits: [{key: a, limit: -1}]":                                {"limits[0].limit", "0 to 100000"},
		"limits: [{key: a, limit: 100001}]":                            {"limits[0].limit", "0 to 100000"},
		"limits: [{key: a, limit: 2.5}]":                               {"limits[0].limit", "whole number"},
		"limits: [{key: a, limit: '5'}]":                               {"limits[0].limit", "whole number"},
		"limits: [{key: a, limit: 1, limit: 2}]":                       {"limits[0].limit", "twice"},
		"limits: [{key: 42, limit: 1}]":                                {"limits[0].key", "quotes"},
		"limits: [{key: '', limit: 1}]":                                {"limits[0].key", "255"},
		"limits: [{key: weir.x, limit: 1}]":                            {"limits[0].key", "weir."},
		"limits: [{key: 'weir.*', limit: 1}]":                          {"limits[0].key", "weir."},
		"limits: [{key: \"a\\0b\", limit: 1}]":                         {"limits[0].key", "NUL"},
		"limits: [{key: " + long + ", limit: 1}]":                      {"limits[0].key", "255"},
		"limits: [{key: a, limit: 1, per: 1s}]":                        {"limits[0].per", "rate"},
		"limits: [{key: a, rate: b, limit: 1, per: 1s}]":               {"limits[0].rate", "another name"},
		"limits: [{rate: a, limit: 1}]":                                {"limits[0].per", "missing"},
		"limits: [{rate: a, per: 1s}]":                                 {"limits[0].limit", "missing"},
		"limits: [{rate: a, limit: 0, per: 1s}]":                       {"limits[0].limit", "1 to 100000"},
		"limits: [{rate: a, limit: 1, per: 0s}]":                       {"limits[0].per", "1ms to 24h"},
		"limits: [{rate: a, limit: 1, per: 1500us}]":                   {"limits[0].per", "1ms to 24h"},
		"limits: [{rate: a, limit: 1, per: 25h}]":                      {"limits[0].per", "1ms to 24h"},
		"limits: [{rate: a, limit: 1, per: 5}]":                        {"limits[0].per", "number"},
		"limits: [{rate: a, limit: 1, per: '5'}]":                      {"limits[0].per", "unit"},
		"limits: [{key: a, limit: 1}, {key: a, limit: 2}]":             {"limits", `"a" is given twice`},
		"limits: [{key: &a b, limit: 1}]":                              {"limits[0].key"},
		"queues: [{name: a}]":                                          {"queues[0]", "neither limit nor rate"},
		"queues: [{limit: 1}]":                                         {"queues[0].name", "missing"},
		"queues: [{name: a, limit: 0}]":                                {"queues[0].limit", "1 to 100000"},
		"queues: [{name: a, slots: 5}]":                                {"queues[0].slots", "unknown key"},
		"queues: [{name: a, rate: 5}]":                                 {"queues[0].rate", "{limit"},
		"queues: [{name: a, rate: {limit: 5}}]":                        {"queues[0].rate.per", "missing"},
		"queues: [{name: a, rate: {limit: 5, per: 2d}}]":               {"queues[0].rate.per", "1ms to 24h"},
		"queues: [{name: a, rate: {limit: 0, per: 1s}}]":               {"queues[0].rate.limit", "1 to 100000"},
		"queues: [{name: a, limit: 1}, {name: a, limit: 2}]":           {"queues", `"a" is given twice`},
		"queues: [{name: " + strings.Repeat("q", 129) + ", limit: 1}]": {"queues[0].name", "128"},
	} {
		_, err := read(text)
		wantError(t, err, append(want, "weir.yaml:1")...)
	}
	for variable, want := range map[string]string{
		"WEIR_LIMITS=a": "no limit", "WEIR_LIMITS=a=": "whole number", "WEIR_LIMITS=a=1,": "no limit", "WEIR_LIMITS=a=1/": "unit", "WEIR_LIMITS=a=0/1s": "1 to",
		"WEIR_LIMITS=a=1/2": "unit", "WEIR_LIMITS=a=1e9/s": "whole number", "WEIR_LIMITS=a=-1/s": "1 to 100000", `WEIR_LIMITS="a=1`: "no end",
		"WEIR_LIMITS=a=1,a=2": "twice", "WEIR_LIMITS==1": "255", "WEIR_QUEUES=a=": "whole number", "WEIR_QUEUES=a=1+": "whole number",
		"WEIR_QUEUES=a=+1/s": "whole number", "WEIR_QUEUES=a=5/": "unit", "WEIR_QUEUES=a=1+2": "unit", "WEIR_QUEUES=mail=5*2": "whole number",
	} {
		_, err := read("", variable)
		wantError(t, err, want, variable[:strings.IndexByte(variable, '=')])
	}
	_, err := read("", "WEIR_LIMITS=postgres://u:hunter2@h/x")
	if wantError(t, err, "not shown"); strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret in the wrong place is shown: %v", err)
	}
}
