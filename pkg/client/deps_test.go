package client_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTheClientBringsFewDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"github.com/weirq/weir/pkg/", "github.com/jackc/", "golang.org/x/text/", "golang.org/x/sync/", // ours, pgx and its own
		"github.com/redis/go-redis/", "github.com/cespare/xxhash/", "github.com/dgryski/go-rendezvous", "go.uber.org/atomic", // go-redis
		"github.com/oklog/ulid/", "go.opentelemetry.io/otel", // the API, see below
		"github.com/weirq/weir/internal/cadence", "github.com/netresearch/go-cron", // the rhythm of schedules
	}
	for _, path := range strings.Fields(string(out)) {
		ok := false
		for _, prefix := range allowed {
			ok = ok || strings.HasPrefix(path, prefix)
		}
		if !ok || strings.HasPrefix(path, "go.opentelemetry.io/otel/sdk") || strings.HasPrefix(path, "go.opentelemetry.io/otel/exporters") ||
			strings.HasSuffix(path, "pgstore/migrate") {
			t.Errorf("package client imports %s", path)
		}
	}
}
