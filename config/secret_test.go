package config_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirq/weir/config"
)

const canary = "S3CR3T"

// forms are the ways in which the canary could leave.
var forms = []string{
	canary,
	"%53%33%43%52%33%54", // as a careful client encodes it
	url.QueryEscape("S3CR3T-ä/@:"),
	base64.StdEncoding.EncodeToString([]byte(canary)),
	base64.RawURLEncoding.EncodeToString([]byte(canary)),
	hex.EncodeToString([]byte(canary)),
}

// noSecret fails if text holds the canary in any form.
func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, form := range forms {
		if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
			t.Errorf("%q gives the secret away in the form %q", text, form)
		}
	}
}

// badPostgres and badRedis are malformed; {P} stands for a form of the canary.
var badPostgres = []string{
	"postgres://app:{P}%Sb@db/app", "postgres://app:p@ss/{P}#rd?@db:x/app", "postgres://app:{P}@db:99999/app",
	"postgres://app:{P}@db:port/app", "host=db password='{P}", "host=db password={P} port=abc", "host=db password={P} sslmode=maybe",
	"postgres://app:{P}@db/app?sslmode={P}", "postgres://app:{P}@[::1/app", "postgres://app:{P}@db/app?connect_timeout=x{P}", "{P}", "app:{P}@db/app",
	"mysql://app:{P}@db/app", "postgres://app:{P}@db/app?pool_max_conns={P}", "postgres://app:%{P}@db/app%",
	"postgres://app:{P}@db/app?target_session_attrs={P}", "postgres://app:{P}@db/app?sslrootcert=/no/{P}", "host=db password={P} garbage",
}

var badRedis = []string{
	"redis://u:pä {P}@h", "rediss://:{P}%zz@h", "redis://u:{P}@h:port", "http://u:{P}@h", "{P}", "u:{P}@h:6379", "redis://u:{P}@h/db",
	"redis://u:{P}@h:6379/0?nonsense={P}", "redis://u:{P}@h:6379/0?dial_timeout=x{P}", "redis://u:{P}@[::1", "redis://u:{P}@h:6379/x{P}", "redis://u:{P}\x7f@h",
}

func TestNoErrorAboutAConnectionStringContainsIt(t *testing.T) {
	t.Parallel()
	for key, patterns := range map[string][]string{"postgres.url": badPostgres, "postgres.lease_url": badPostgres, "redis.url": badRedis} {
		env := "WEIR_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		for _, pattern := range patterns {
			for _, form := range forms {
				dsn := strings.ReplaceAll(pattern, "{P}", form)
				_, err := read("", env+"="+dsn)
				if err == nil {
					t.Errorf("took %q", dsn)
					continue
				}
				wantError(t, err, key, env)
				noSecret(t, err.Error())

				path := writeFile(t, dsn+"\n")
				_, err = read("", env+"_FILE="+path)
				wantError(t, err, key, env+"_FILE", path)
				noSecret(t, err.Error())

				doc, _ := nest(key, "'"+strings.ReplaceAll(dsn, "'", "''")+"'")
				_, err = read(doc)
				wantError(t, err, "weir.yaml")
				noSecret(t, err.Error())

				doc, _ = nest(key, dsn) // not quoted: YAML makes of it what it likes
				l, err := read(doc)
				noSecret(t, fmt.Sprint(err, l))
			}
		}
	}
}

func TestNoErrorAboutAMisplacedSecretContainsIt(t *testing.T) {
	t.Parallel()
	dsn := "postgres://app:S3CR3T@db/app"
	for _, doc := range []string{
		"postgres: {url " + dsn + "}", "postgres: {url:" + dsn + "}", "postgres:\n  url:" + dsn, "postgres: " + dsn, dsn, "- " + dsn,
		"postgres: {ulr: '" + dsn + "'}", "postgres:\n  password: S3CR3T", "postgres: {url: [S3CR3T]}", "postgres: {url: {S3CR3T: 1}}", "postgres: {url: *S3CR3T}",
		"postgres: {url: &S3CR3T}", "postgres: {url: !S3CR3T x}", "postgres: {url: !!S3CR3T x}", "postgres: {url: 'S3CR3T", "postgres: {url: \"S3CR3T\\q\"}", "postgres: {url: @S3CR3T}",
		"postgres: {url: %S3CR3T}", "postgres: {url: `S3CR3T}", "namespace: " + dsn, "environment: '" + dsn + "'", "redis: {mode: 'redis://:S3CR3T@h'}",
		"timing: {lease: '" + dsn + "'}", "worker: {concurrency: '" + dsn + "'}", "worker: {queues: '" + dsn + "'}", "worker: {queues: ['" + dsn + "']}",
		"worker: {queues: [{name: a, slots: '" + dsn + "'}]}", "worker: {http: {listen: '" + dsn + "'}}", "log: {level: '" + dsn + "'}", "sweeper: {duties_off: ['" + dsn + "']}",
		"postgres: {url_file: '" + dsn + "'}", "postgres: {url_file: S3CR3T}", "postgres: {url_file: host=db password=S3CR3T}", "redis: {tls: {ca_file: 'redis://:S3CR3T@h/0'}}",
		"%TAG ! S3CR3T\n---\na: b", "%S3CR3T\n---\na: b", "<<: {S3CR3T: 1}", "? {S3CR3T: 1}\n: 2", "S3CR3T+/: 1",
	} {
		_, err := read(doc)
		wantError(t, err, "weir.yaml")
		noSecret(t, err.Error())
	}
	for _, odd := range []string{`postgres://app:S3CR3T\2@db/app`, "postgres://app:S3CR3T\x01@db/app", "postgres://S3CR3T"} {
		l, err := read("", "WEIR_POSTGRES_URL="+odd) // right or wrong, as the driver likes
		noSecret(t, fmt.Sprint(err, l))
	}
	for _, k := range config.Keys() {
		if l, err := read("", k.Env+"="+dsn+"?sslmode=S3CR3T"); err == nil {
			t.Errorf("%s takes anything: %v", k.Key, l.Values())
		} else {
			noSecret(t, err.Error())
		}
	}
	for _, line := range []string{"WEIR_POSTGRES_ULR=" + dsn, "WEIR_" + dsn, "WEIR_CONFIG=" + dsn, "WEIR_WORKER_QUEUES=" + dsn + "=5,a=1"} {
		_, err := read("", line)
		if err != nil {
			noSecret(t, err.Error())
		}
	}
	_, err := config.Read(config.Sources{Path: dsn})
	wantError(t, err, "--config")
	noSecret(t, err.Error())
}

func TestASecretIsRedactedHoweverItIsPrinted(t *testing.T) {
	t.Parallel()
	l := mustRead(t, "", "WEIR_POSTGRES_URL=postgres://app:S3CR3T@db/app", "WEIR_REDIS_URL=redis://:S3CR3T@h:6379")
	s := l.Config.Postgres.URL
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%f", "%t", "%c", "%U", "%10.3s"} {
		for _, v := range []any{s, &s, []config.Secret{s}, map[config.Secret]config.Secret{s: s}, l.Config.Postgres, &l.Config, *l, struct{ config.Secret }{s}} {
			noSecret(t, fmt.Sprintf(verb, v)) // also for verbs that do not fit
		}
	}
	text, err := json.Marshal(map[string]any{"a": l.Config, "b": l.Values(), "c": &s})
	if err != nil {
		t.Fatal(err)
	}
	noSecret(t, string(text))
	for _, handler := range []func(*strings.Builder) slog.Handler{
		func(b *strings.Builder) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *strings.Builder) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b strings.Builder
		slog.New(handler(&b)).Info("start", "secret", s, "config", l.Config, "loaded", l, "values", l.Values())
		noSecret(t, b.String())
		if !strings.Contains(b.String(), "[redacted]") {
			t.Errorf("got %q, want [redacted] in it", b.String())
		}
	}
	if got, want := value(t, l, "postgres.url").Value, "[redacted]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := value(t, l, "postgres.lease_url").Value; got != "" {
		t.Errorf("got %q for a secret that is not set, want nothing", got)
	}
	if got, want := s.Reveal(), "postgres://app:S3CR3T@db/app"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestASecretAndItsFileAreOneSetting(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "postgres://file@db/x\r\n")
	absent := filepath.Join(t.TempDir(), "absent")

	l := mustRead(t, "postgres: {url_file: '"+path+"'}")
	if got, want := l.Config.Postgres.URL.Reveal(), "postgres://file@db/x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := l.Source("postgres.url"), path+" (weir.yaml:1)"; got != want {
		t.Errorf("got source %q, want %q", got, want)
	}

	l = mustRead(t, "postgres: {url_file: '"+absent+"'}", "WEIR_POSTGRES_URL=postgres://env@db/x")
	if got := l.Config.Postgres; got.URL.Reveal() != "postgres://env@db/x" || got.URLFile != "" {
		t.Errorf("a variable does not replace the file's url_file: %q, %q", got.URL.Reveal(), got.URLFile)
	}
	l = mustRead(t, "postgres: {url: 'postgres://yaml@db/x'}", "WEIR_POSTGRES_URL_FILE="+path)
	if got, want := l.Config.Postgres.URL.Reveal(), "postgres://file@db/x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	_, err := read("postgres: {url: 'postgres://a@db/x', url_file: '" + path + "'}")
	wantError(t, err, "postgres.url", "postgres.url_file", "weir.yaml:1", "keep one")
	_, err = read("", "WEIR_REDIS_URL=redis://h", "WEIR_REDIS_URL_FILE="+path)
	wantError(t, err, "WEIR_REDIS_URL", "WEIR_REDIS_URL_FILE", "keep one")

	_, err = read("", "WEIR_POSTGRES_URL_FILE="+absent)
	wantError(t, err, "postgres.url_file", "WEIR_POSTGRES_URL_FILE", absent)
	for content, problem := range map[string]string{"": "empty", "\n": "empty", "a\x00b": "NUL", "a\xff": "UTF-8", strings.Repeat("x", 64<<10+1): "longer"} {
		_, err = read("", "WEIR_POSTGRES_URL_FILE="+writeFile(t, content))
		wantError(t, err, "postgres.url_file", problem)
	}
}
