package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/viper"

	"github.com/weirq/weir/config"
)

// facts is what a program would let viper decode.
type facts struct {
	Timing struct {
		Lease time.Duration
	}
	Worker struct {
		Concurrency int
	}
	Limits map[string]int
}

// TestWhatViperAloneWouldTake holds docs/decisions/0002-config-viper.md to the truth: if a release changes one of these, the strict pass
// may have less to do.
func TestWhatViperAloneWouldTake(t *testing.T) {
	t.Parallel()
	for text, right := range map[string]func(facts) bool{
		"timing: {lease: 600}":                          func(f facts) bool { return f.Timing.Lease == 600 }, // nanoseconds
		"timing: {lease: true}":                         func(f facts) bool { return f.Timing.Lease == 1 },
		"timing: {lease: -1s}":                          func(f facts) bool { return f.Timing.Lease == -time.Second },
		"timing: {lease: null}":                         func(f facts) bool { return f.Timing.Lease == 0 },
		"timing: {lease: 5s, Lease: 6s}":                func(f facts) bool { return f.Timing.Lease > 0 },
		"timing: {lease: 5s}\n---\ntiming: {lease: 7s}": func(f facts) bool { return f.Timing.Lease == 5*time.Second },
		"worker: {concurrency: 2.7}":                    func(f facts) bool { return f.Worker.Concurrency == 2 },
		"worker: {concurrency: '5'}":                    func(f facts) bool { return f.Worker.Concurrency == 5 },
		"limits: {Customer-A: 1}":                       func(f facts) bool { return f.Limits["customer-a"] == 1 && len(f.Limits) == 1 },
	} {
		v := viper.New()
		v.SetConfigType("yaml")
		var f facts
		if err := v.ReadConfig(strings.NewReader(text)); err != nil {
			t.Errorf("%q: viper refuses to read it: %v", text, err)
		} else if err := v.UnmarshalExact(&f); err != nil {
			t.Errorf("%q: viper refuses to decode it: %v", text, err)
		} else if !right(f) {
			t.Errorf("%q: viper makes %+v of it", text, f)
		}
		if _, err := read(text); err == nil {
			t.Errorf("%q: Read takes it", text)
		}
	}
}

func TestViperAloneDoesNotDecodeAVariableWithoutAFile(t *testing.T) {
	t.Setenv("WEIRTEST_TIMING_LEASE", "9s") // so not parallel
	v := viper.New()
	v.SetEnvPrefix("WEIRTEST")
	v.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	v.AutomaticEnv()
	var f facts
	if err := v.Unmarshal(&f); err != nil {
		t.Fatal(err)
	}
	if got, want := v.GetDuration("timing.lease"), 9*time.Second; got != want {
		t.Errorf("got %v by name, want %v", got, want)
	}
	if f.Timing.Lease != 0 {
		t.Errorf("got %v decoded, want what the decision page says: nothing", f.Timing.Lease)
	}
}

func TestLoadReadsTheEnvironmentOfTheProcess(t *testing.T) {
	t.Setenv("WEIR_NAMESPACE", "weir_env") // so not parallel
	l, err := config.Load("weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Config.Namespace, "weir_env"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
