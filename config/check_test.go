package config_test

import (
	"strings"
	"testing"
)

func TestSettingsThatContradictEachOtherAreBothNamed(t *testing.T) {
	t.Parallel()
	ca := writeFile(t, certificate(t))
	for name, c := range map[string]struct {
		text string
		env  []string
		want []string
	}{
		"a renewal rarer than the lease allows": {"timing: {lease: 9s, renew: 4s}", nil,
			[]string{"timing.renew", "4s", "timing.lease 9s (weir.yaml:1)"}},
		"a lease too short for the renewal": {"timing: {renew: 3s}", []string{"WEIR_TIMING_LEASE=5s"},
			[]string{"timing.renew", "timing.lease 5s (WEIR_TIMING_LEASE)"}},
		"a sweeper slower than the lease": {"timing: {recover: 20s}", nil,
			[]string{"timing.recover", "20s", "timing.lease 15s (default)"}},
		"killed before the grace ends": {"worker: {exits_by: 20s}", nil,
			[]string{"worker.exits_by", "20s", "worker.grace 30s (default)"}},
		"killed when the grace ends": {"worker: {grace: 45s, exits_by: 45s}", nil,
			[]string{"worker.exits_by", "worker.grace 45s (weir.yaml:1)"}},
		"fewer jobs than queues": {"worker:\n  concurrency: 1\n  queues: [{name: a, slots: 1}, {name: b, slots: 1}]", nil,
			[]string{"worker.concurrency", "weir.yaml:2", "worker.queues a=1,b=1 (weir.yaml:3)"}},
		"more partitions than plans bear": {"sweeper: {partitions: {every: minute}}", nil,
			[]string{"sweeper.retention.completed", "24h", "sweeper.partitions.every minute (weir.yaml:1)"}},
		"a mode without a server": {"redis: {mode: cluster}", nil, []string{"redis.mode", "redis.url"}},
		"a URL of another mode": {"redis: {mode: single, url: 'redis://a:6379?addr=b:6379'}", nil,
			[]string{"redis.url", "redis.mode single"}},
		"authorities for a connection in the clear": {"redis: {url: 'redis://a:6379', tls: {ca_file: '" + ca + "'}}", nil,
			[]string{"redis.tls.ca_file", "redis.url", "rediss://"}},
		"authorities that are none": {"redis: {tls: {ca_file: '" + writeFile(t, "hello") + "'}}", nil,
			[]string{"redis.tls.ca_file", "PEM"}},
		"authorities that are missing": {"redis: {tls: {ca_file: /no/such/file}}", nil,
			[]string{"redis.tls.ca_file", "/no/such/file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(c.text, c.env...)
			wantError(t, err, c.want...)
		})
	}
}

func TestSettingsThatFitAreTaken(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a third of the lease":       "timing: {lease: 9s, renew: 3s}",
		"the demo's lease":           "timing: {lease: 3s}",
		"fewer jobs than slots":      "worker: {concurrency: 5}",
		"no grace":                   "worker: {grace: 0s}",
		"minutes for a short time":   "sweeper: {partitions: {every: minute}, retention: {completed: 2m}}",
		"redis off with a server":    "redis: {mode: off, url: 'redis://a'}",
		"a cluster":                  "redis: {mode: cluster, url: 'redis://a:6379?addr=b:6379'}",
		"a cluster, found out":       "redis: {url: 'redis://a:6379?addr=b:6379'}",
		"a sentinel":                 "redis: {mode: sentinel, url: 'redis://a:26379?master_name=m'}",
		"a socket":                   "redis: {url: 'unix:///run/redis.sock'}",
		"several Postgres hosts":     "postgres: {url: 'postgres://a@h1:1,h2:2/x?target_session_attrs=read-write'}",
		"pairs":                      `postgres: {url: "host=h user=a password='p w' dbname=x"}`,
		"settings of the pool":       "postgres: {url: 'postgres://a@h/x?pool_max_conn_lifetime=1h'}",
		"a socket of Postgres":       "postgres: {url: 'postgres:///x?host=/run/postgresql'}",
		"a password of odd letters":  "postgres: {url: 'postgres://a:p%40s%2Fs%23@h/x'}",
		"a lease connection besides": "postgres: {url: 'postgres://a@h/x', lease_url: 'postgres://a@h2/x', pooler: transaction}",
	} {
		if _, err := read(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMoreConcurrencyThanSlotsIsAWarning(t *testing.T) {
	t.Parallel()
	l := mustRead(t, "worker:\n  queues: [{name: a, slots: 5}]\nsweeper: {duties_off: [recover]}", "WEIR_WORKER_CONCURRENCY=200")
	got := strings.Join(l.Warnings(), "\n")
	for _, part := range []string{"worker.concurrency 200 (WEIR_WORKER_CONCURRENCY)", "worker.queues (weir.yaml:2)", "5 jobs", "sweeper.duties_off", "recover"} {
		if !strings.Contains(got, part) {
			t.Errorf("got %q, want %q in it", got, part)
		}
	}
}

func TestRequireSaysHowToGiveAValue(t *testing.T) {
	t.Parallel()
	l := mustRead(t, "redis: {url: 'redis://h'}")
	if err := l.Require("redis.url", "namespace"); err != nil {
		t.Error(err)
	}
	wantError(t, l.Require("redis.url", "postgres.url", "environment"), "postgres.url: is not set", "WEIR_POSTGRES_URL", "WEIR_POSTGRES_URL_FILE",
		"weir.yaml", "environment: is not set", "WEIR_ENVIRONMENT")
	defer func() {
		if recover() == nil {
			t.Error("Require takes a key that does not exist")
		}
	}()
	_ = l.Require("postgres.ulr")
}

func TestTheRedisModeIsFoundOut(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "off",
		"redis: {url: 'redis://a'}":             "single",
		"redis: {url: 'redis://a?addr=b:6379'}": "cluster",
		"redis: {url: 'redis://a:26379?master_name=m'}":              "sentinel",
		"redis: {url: 'redis://a:26379?master_name=m&addr=b:26379'}": "sentinel",
		"redis: {mode: off, url: 'redis://a'}":                       "off",
		"redis: {mode: cluster, url: 'redis://a'}":                   "cluster",
	} {
		if got := mustRead(t, text).Config.Redis.Resolved(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
