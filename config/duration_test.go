package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/config"
)

// durationKeys returns the settings that are durations: those whose least value has a unit.
func durationKeys() []config.Key {
	var keys []config.Key
	for _, k := range config.Keys() {
		if strings.HasSuffix(k.Min, "s") {
			keys = append(keys, k)
		}
	}
	return keys
}

func TestDurationsThatAreNoneAreRefusedForEveryKey(t *testing.T) {
	t.Parallel()
	keys := durationKeys()
	if len(keys) != 15 {
		t.Fatalf("got %d duration keys, want 15", len(keys))
	}
	fromFile := []string{"5", `"5"`, "5.0", "0", `"0"`, "1e3", "0x10", "5 minutes", `"5 minutes"`, `"5m "`, `" 5m"`, `"-1s"`, "-1s", "+1s", "5M",
		"1h30", "9999999h", "999999999999d", "106751d24h", "1d-1h", "1.5d", ".5s", "5.s", "1h 30m", "1m1d", "d", "s", "∞", "null", "~", "",
		`""`, "[5s]", "{a: 5s}", "true", "2020-01-01", "1:30", "!x 5s", "&a 5s", "infs", "NaN"}
	fromEnv := []string{"5", "0", "5.0", "1e3", "5 minutes", "5m ", " 5m", "-1s", "+1s", "5M", "1h30", "9999999h", "null", "[5s]", "1.5d", ".5s", "true", `"5s"`}
	for _, k := range keys {
		t.Run(k.Key, func(t *testing.T) {
			t.Parallel()
			for _, bad := range fromFile {
				doc, line := nest(k.Key, bad)
				_, err := read(doc)
				wantError(t, err, k.Key, fmt.Sprintf("weir.yaml:%d", line))
			}
			for _, bad := range fromEnv {
				_, err := read("", k.Env+"="+bad)
				wantError(t, err, k.Key, k.Env, fmt.Sprintf("%q", bad))
			}
		})
	}
}

func TestDurationsOutOfTheirRangeAreRefusedForEveryKey(t *testing.T) {
	t.Parallel()
	for _, k := range durationKeys() {
		for _, bad := range []string{"0s", "0d", "1ns", "36500d", "1d106750d", "500us"} {
			if k.Key == "worker.grace" && bad != "36500d" && bad != "1d106750d" {
				continue // zero grace means: cancelled at once
			}
			_, err := read("", k.Env+"="+bad)
			wantError(t, err, k.Key, k.Env, bad)
		}
		if _, err := read("", k.Env+"="+k.Max+"0"); err == nil {
			t.Errorf("%s: accepted a value without a unit", k.Key)
		}
	}
}

func TestAnErrorAboutADurationGivesAnExample(t *testing.T) {
	t.Parallel()
	_, err := read("timing:\n  lease: 600\n")
	wantError(t, err, `weir.yaml:2: timing.lease: is "600", a number, must be a duration with its unit, such as "15s"`)
	_, err = read("", "WEIR_TIMING_LEASE=600")
	wantError(t, err, `WEIR_TIMING_LEASE: timing.lease: "600" is a duration without a unit; a right one is "15s"`)
	_, err = read("", "WEIR_TIMING_LEASE=1s")
	wantError(t, err, `"1s" is out of range: 3s to 10m`)
}

func TestDurationsTakeDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"14d": 14 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1d": 24 * time.Hour, "1d0h": 24 * time.Hour, "0d90s": 90 * time.Second,
		"1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "1d1h1m1s": 25*time.Hour + time.Minute + time.Second, "3650d": 3650 * 24 * time.Hour,
		"10s": 10 * time.Second, "10000ms": 10 * time.Second, "10000000µs": 10 * time.Second,
	} {
		l := mustRead(t, "", "WEIR_SWEEPER_RETENTION_DEAD="+text)
		if got := l.Config.Sweeper.Retention.Dead; got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
		again := mustRead(t, "", "WEIR_SWEEPER_RETENTION_DEAD="+value(t, l, "sweeper.retention.dead").Value)
		if got := again.Config.Sweeper.Retention.Dead; got != want {
			t.Errorf("%s: printed and read again: got %v, want %v", text, got, want)
		}
	}
}
