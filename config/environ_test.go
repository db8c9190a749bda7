package config_test

import (
	"reflect"
	"testing"

	"github.com/weirq/weir/config"
)

func TestUnknownVariablesAreRefusedWithTheNearestKnownOne(t *testing.T) {
	t.Parallel()
	for name, near := range map[string]string{
		"WEIR_POSTGRES_ULR":      "WEIR_POSTGRES_URL",
		"WEIR_REDIS_ADR":         "",
		"WEIR_TIMMING_LEASE":     "WEIR_TIMING_LEASE",
		"WEIR_LEASE":             "WEIR_TIMING_LEASE",
		"WEIR_WORKER_CONCURENCY": "WEIR_WORKER_CONCURRENCY",
		"WEIR_NAMESPCE":          "WEIR_NAMESPACE",
		"WEIR_CONFG":             "WEIR_CONFIG",
		"WEIR_worker_grace":      "WEIR_WORKER_GRACE",
		"WEIR_":                  "",
		"WEIR_JOBS":              "",
		"WEIR_TEST":              "",
		"WEIR_ADMIN_TOKEN":       "",
	} {
		_, err := read("", name+"=S3CR3T")
		wantError(t, err, name, "no such setting", near)
	}
}

func TestVariablesThatAreNotSettingsPass(t *testing.T) {
	t.Parallel()
	mustRead(t, "", "PATH=/bin", "WEIRD=1", "weir_lease=5", "MY_WEIR_LEASE=5", "WEIR_TEST_POSTGRES_URL=x", "WEIR_JOB_ID=x", "WEIR_DEMO_DIR=x",
		"WEIR_SERVICE_HOST=10.0.0.1", "WEIR_SERVICE_PORT=80", "WEIR_PORT=tcp://10.0.0.1:80", "WEIR_PORT_80_TCP=tcp://10.0.0.1:80",
		"WEIR_SWEEPER_PORT_9466_TCP_ADDR=10.0.0.1", "WEIR_SWEEPER_SERVICE_PORT_METRICS=9466", "WEIR_SWEEPER_SERVICE_HOST=10.0.0.1", "", "=", "=C:=C:\\")
}

func TestNoSettingLooksLikeAVariableOfAnotherOwner(t *testing.T) {
	t.Parallel()
	for _, k := range config.Keys() {
		if _, err := read("", k.Env+"=\x00"); err == nil {
			t.Errorf("%s is taken for another's and ignored", k.Env)
		}
	}
}

func TestAnEmptyVariableCountsAsNotSet(t *testing.T) {
	t.Parallel()
	l := mustRead(t, "namespace: weir_a", "WEIR_NAMESPACE=", "WEIR_NO_SUCH_SETTING=", "WEIR_WORKER_QUEUES=")
	if got, want := l.Config.Namespace, "weir_a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOfTwoVariablesWithOneNameTheLastCounts(t *testing.T) {
	t.Parallel()
	if got := mustRead(t, "", "WEIR_NAMESPACE=a", "WEIR_NAMESPACE=b").Config.Namespace; got != "b" {
		t.Errorf("got %q, want b", got)
	}
	if got := mustRead(t, "", "WEIR_NAMESPACE=a", "WEIR_NAMESPACE=").Config.Namespace; got != "weir" {
		t.Errorf("got %q, want weir", got)
	}
}

func TestQueuesFromAVariable(t *testing.T) {
	t.Parallel()
	got := mustRead(t, "", `WEIR_WORKER_QUEUES=critical=50*4, mail=20 ,"a,b"=1`).Config.Worker.Queues
	want := []config.Queue{{Name: "critical", Slots: 50, Weight: 4}, {Name: "mail", Slots: 20, Weight: 1}, {Name: "a,b", Slots: 1, Weight: 1}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	for bad, part := range map[string]string{
		"mail":          "no slots",
		"mail=":         "whole number",
		"mail=0":        "1 to 100000",
		"mail=-1":       "1 to 100000",
		"mail=5*0":      "1 to 100",
		"mail=5*":       "whole number",
		"mail=5*1*1":    "whole number",
		"mail=5 * 2":    "whole number",
		"mail=2.5":      "whole number",
		"mail=5,":       "empty",
		",mail=5":       "empty",
		"a=1,,b=1":      "empty",
		"=5":            "empty",
		"a=1,a=2":       "twice",
		`"a=1`:          "no end",
		`"a"b=1`:        "no slots",
		"a=b=1":         "whole number",
		"[{name: a}]":   "no slots",
		"mail:20":       "no slots",
		"a=99999,b=999": "in all",
		"a=100001":      "1 to 100000",
		"a\xff=1":       "UTF-8",
		"a\nb=1":        "control",
	} {
		_, err := read("", "WEIR_WORKER_QUEUES="+bad)
		wantError(t, err, "WEIR_WORKER_QUEUES", "worker.queues", part)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"lease", "renew", "poll", "concurrency", "grace"}
	for name, want := range map[string]string{
		"laese": "lease", "Lease": "lease", "renwe": "renew", "pol": "poll", "concurency": "concurrency", "grase": "grace",
		"x": "", "": "", "something": "", "concurrency": "concurrency",
	} {
		if got := config.Nearest(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got := config.Nearest("lease", nil); got != "" {
		t.Errorf("got %q of no words, want none", got)
	}
}
