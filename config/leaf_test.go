package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/config"
)

// sample is two values for a setting that differ from each other and from the default; fileYAML is empty where it equals file.
type sample struct {
	file, env string
	fileYAML  string
	needs     string // a variable without which the value is refused
}

// samples returns a sample for every setting; settings that follow from another by rule are kept clear of one another's ranges.
func samples(t *testing.T) map[string]sample {
	dsn1, dsn2 := writeFile(t, "postgres://file@db1/a\n"), writeFile(t, "postgres://file@db2/a")
	redis1, redis2 := writeFile(t, "redis://r1:6379/1\r\n"), writeFile(t, "redis://r2:6379/1")
	ca1, ca2 := writeFile(t, certificate(t)), writeFile(t, certificate(t))
	return map[string]sample{
		"namespace":                    {file: "weir_a", env: "weir_b"},
		"environment":                  {file: "staging", env: "production"},
		"postgres.url":                 {file: "postgres://a@db/x", env: "host=db user=b"},
		"postgres.url_file":            {file: dsn1, env: dsn2},
		"postgres.pooler":              {file: "transaction", env: "none"},
		"postgres.lease_url":           {file: "postgres://a@db/x", env: "postgres://b@db/x"},
		"postgres.lease_url_file":      {file: dsn1, env: dsn2},
		"postgres.max_conns":           {file: "7", env: "8"},
		"postgres.connect_timeout":     {file: "2s", env: "3s"},
		"postgres.statement_timeout":   {file: "20s", env: "30s"},
		"postgres.schema":              {file: "migrate", env: "off"},
		"redis.url":                    {file: "redis://a:6379/0", env: "rediss://u:p@b:6379/1"},
		"redis.url_file":               {file: redis1, env: redis2},
		"redis.mode":                   {file: "single", env: "off", needs: "WEIR_REDIS_URL=redis://r:6379"},
		"redis.timeout":                {file: "50ms", env: "1500ms"},
		"redis.tls.ca_file":            {file: ca1, env: ca2},
		"timing.lease":                 {file: "20s", env: "1m"},
		"timing.renew":                 {file: "1s", env: "2500ms"},
		"timing.poll":                  {file: "7s", env: "8s"},
		"timing.recover":               {file: "2s", env: "500ms"},
		"timing.result_retry_for":      {file: "1h30m", env: "5m"},
		"timing.expire":                {file: "6s", env: "7s"},
		"timing.missing_payload_grace": {file: "2m", env: "90s"},
		"worker.concurrency":           {file: "7", env: "8"},
		"worker.queues": {file: "Mail.eu=3", env: `A.b=2*4,"a,b=c"=1,naïve=1`,
			fileYAML: "[{name: Mail.eu, slots: 3}]"},
		"worker.modes":             {file: "inline,forked", env: "spawned", fileYAML: "[inline, forked]"},
		"worker.children.count":    {file: "3", env: "5"},
		"worker.children.max_jobs": {file: "200", env: "1"},
		"worker.children.max_rss":  {file: "1GiB", env: "20MiB"},
		"worker.children.max_age":  {file: "30m", env: "2d"},
		"worker.children.env":      {file: "STRIPE_KEY,AWS_*", env: "_x", fileYAML: "[STRIPE_KEY, AWS_*]"},
		"worker.handlers": {file: `[{"command":["python3","render.py",""],"kind":"pdf.render","slots":2,"timeout":"2m"}]`,
			env:      `[{"kind":"x","retry_after":"5s","webhook":"https://h/a,b"}]`,
			fileYAML: `[{kind: pdf.render, command: [python3, render.py, ""], slots: 2, timeout: 2m}]`},
		"worker.grace":                {file: "10s", env: "0s"},
		"worker.exits_by":             {file: "50s", env: "70s"},
		"worker.abandon":              {file: "true", env: "false"},
		"worker.http.listen":          {file: "0.0.0.0:1234", env: "off"},
		"sweeper.http.listen":         {file: ":0", env: "[::1]:9"},
		"sweeper.retention.completed": {file: "36h", env: "3d"},
		"sweeper.retention.dead":      {file: "30d", env: "1d12h"},
		"sweeper.partitions.every":    {file: "hour", env: "day"},
		"sweeper.partitions.ahead":    {file: "6", env: "7"},
		"sweeper.duties_off":          {file: "expire", env: "rotate,counts", fileYAML: "[expire]"},
		"sweeper.schedules": {file: `[{"name":"a","every":"1m","kind":"k"}]`, env: `[{"name":"b, c","cron":"0 3 * * *","zone":"Europe/Berlin","kind":"k","payload":{"n":1}}]`,
			fileYAML: "[{name: a, every: 60s, kind: k}]"},
		"limits": {file: "tenant:*=3,stripe=100/1s", env: `"a,b=c"=0,naïve*=1,"a\nb"=2,s=5/1m`,
			fileYAML: `[{key: "tenant:*", limit: 3}, {rate: stripe, limit: 100, per: 1s}]`},
		"queues": {file: "mail=40+200/1s", env: `A.b=1,"a,b=c"=5/250ms,d=1/1h`,
			fileYAML: "[{name: mail, limit: 40, rate: {limit: 200, per: 1s}}]"},
		"log.level":     {file: "debug", env: "error"},
		"log.format":    {file: "json", env: "text"},
		"trace.enabled": {file: "true", env: "false"},
	}
}

func TestEveryLeafComesFromTheHighestLayerThatNamesIt(t *testing.T) {
	t.Parallel()
	all := samples(t)
	full, err := os.ReadFile("weir.full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range config.Keys() {
		t.Run(k.Key, func(t *testing.T) {
			t.Parallel()
			s, ok := all[k.Key]
			if !ok {
				t.Fatal("no sample: every setting needs one")
			}
			if s.fileYAML == "" {
				s.fileYAML = s.file
			}
			doc, line := nest(k.Key, s.fileYAML)
			env := k.Env + "=" + s.env
			fromFile := fmt.Sprintf("weir.yaml:%d", line)

			check(t, k, "", "default", mustRead(t, "", s.needs))
			check(t, k, s.file, fromFile, mustRead(t, doc, s.needs))
			check(t, k, s.env, k.Env, mustRead(t, "", s.needs, env))
			check(t, k, s.env, k.Env, mustRead(t, doc, s.needs, env))
			check(t, k, s.env, k.Env, mustRead(t, string(full), s.needs, tlsIfCA(k), env))
			check(t, k, s.file, fromFile, mustRead(t, doc, s.needs, k.Env+"="))
		})
	}
	if len(all) != len(config.Keys()) {
		t.Errorf("got %d samples for %d settings", len(all), len(config.Keys()))
	}
}

// tlsIfCA makes the file's Redis one that a CA file fits.
func tlsIfCA(k config.Key) string {
	if k.Key == "redis.tls.ca_file" {
		return "WEIR_REDIS_URL=rediss://r:6379"
	}
	return ""
}

// check compares a setting with what a layer said; want is empty for the default.
func check(t *testing.T, k config.Key, want, source string, l *config.Loaded) {
	t.Helper()
	got := value(t, l, k.Key)
	if !strings.HasPrefix(got.Source, source) {
		t.Errorf("got source %q, want %q", got.Source, source)
	}
	switch {
	case k.Secret && want != "":
		if s := secretOf(l, k.Key); s.Reveal() != want {
			t.Errorf("got secret %q, want %q", s.Reveal(), want)
		}
		want = "[redacted]"
	case want == "" && k.Default != "auto":
		want = k.Default
	case want == "":
		return // a derived default; see TestDerivedDefaultsFollowWhatIsSet
	}
	if !same(got.Value, want) {
		t.Errorf("got %q, want %q", got.Value, want)
	}
	if l.Source(k.Key) != got.Source {
		t.Errorf("Source and Values differ: %q, %q", l.Source(k.Key), got.Source)
	}
}

// same compares values, durations by length: 1500ms is 1.5s.
func same(a, b string) bool {
	x, errX := time.ParseDuration(strings.Replace(a, "1d12h", "36h", 1))
	y, errY := time.ParseDuration(strings.Replace(b, "1d12h", "36h", 1))
	return a == b || errX == nil && errY == nil && x == y
}

func secretOf(l *config.Loaded, key string) config.Secret {
	switch key {
	case "postgres.url":
		return l.Config.Postgres.URL
	case "postgres.lease_url":
		return l.Config.Postgres.LeaseURL
	default:
		return l.Config.Redis.URL
	}
}

func TestDefaultsFillEveryField(t *testing.T) {
	t.Parallel()
	l, err := config.Read(config.Sources{})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Namespace: "weir",
		Postgres: config.Postgres{Pooler: "none", MaxConns: 4, ConnectTimeout: 5 * time.Second,
			StatementTimeout: 10 * time.Second, Schema: "check"},
		Redis: config.Redis{Mode: "auto", Timeout: 100 * time.Millisecond},
		Timing: config.Timing{Lease: 15 * time.Second, Renew: 3 * time.Second, Recover: time.Second,
			ResultRetryFor: 10 * time.Minute, Expire: 5 * time.Second, MissingPayloadGrace: time.Minute},
		Worker: config.Worker{Concurrency: 50, Queues: []config.Queue{{Name: "default", Slots: 50, Weight: 1}},
			Grace: 30 * time.Second, ExitsBy: 45 * time.Second, HTTP: config.HTTP{Listen: "127.0.0.1:9465"},
			Modes: []string{}, Handlers: []config.Handler{}, Children: config.Children{
				Count: runtime.NumCPU(), MaxJobs: 1000, MaxRSS: 512 << 20, MaxAge: time.Hour, Env: []string{}}},
		Sweeper: config.Sweeper{HTTP: config.HTTP{Listen: "127.0.0.1:9466"},
			Retention:  config.Retention{Completed: 24 * time.Hour, Dead: 14 * 24 * time.Hour},
			Partitions: config.Partitions{Every: "day", Ahead: 2}, Schedules: []config.Schedule{}, DutiesOff: []string{}},
		Limits: []config.Limit{}, Queues: []config.QueueLimit{},
		Log: config.Log{Level: "info", Format: "text"},
	}
	if !reflect.DeepEqual(l.Config, want) {
		t.Errorf("got  %+v\nwant %+v", l.Config, want)
	}
	if l.Path() != "" || len(l.Warnings()) != 0 {
		t.Errorf("got path %q, warnings %q, want none", l.Path(), l.Warnings())
	}
}

func TestDerivedDefaultsFollowWhatIsSet(t *testing.T) {
	t.Parallel()
	c := mustRead(t, "timing: {lease: 3s}\nworker: {grace: 10s, queues: [{name: a, slots: 2}, {name: b, slots: 5}]}").Config
	if got, want := c.Timing.Renew, 600*time.Millisecond; got != want {
		t.Errorf("got renew %v, want %v", got, want)
	}
	if got, want := c.Worker.ExitsBy, 13*time.Second; got != want {
		t.Errorf("got exits_by %v, want %v", got, want)
	}
	if got, want := c.Worker.Concurrency, 7; got != want {
		t.Errorf("got concurrency %v, want %v", got, want)
	}
	l := mustRead(t, "timing: {poll: 5s, renew: 1s}\nworker: {concurrency: 9}",
		"WEIR_TIMING_POLL=auto", "WEIR_TIMING_RENEW=auto", "WEIR_WORKER_CONCURRENCY=auto")
	if got := l.Config; got.Timing.Poll != 0 || got.Timing.Renew != 3*time.Second || got.Worker.Concurrency != 50 {
		t.Errorf("auto in a variable did not undo the file: %+v", got)
	}
	if got, want := l.Source("timing.renew"), "WEIR_TIMING_RENEW (auto: timing.lease / 5)"; got != want {
		t.Errorf("got source %q, want %q", got, want)
	}
}

func TestKeysAreSortedAndTheirVariablesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	var keys []string
	for _, k := range config.Keys() {
		if other := seen[k.Env]; other != "" {
			t.Errorf("%s and %s share %s", k.Key, other, k.Env)
		}
		seen[k.Env] = k.Key
		keys = append(keys, k.Key)
	}
	if !slices.IsSorted(keys) {
		t.Errorf("keys are not sorted: %q", keys)
	}
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
