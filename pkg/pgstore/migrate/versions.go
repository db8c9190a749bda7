package migrate

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/weirq/weir/pkg/pgstore"
)

// A binary works with the schema of its own release and with that of the next one, which only adds to it: migrate
// first, then replace sweepers, workers and producers in any order.
const (
	// Oldest is the least version that this binary works with.
	Oldest = 1
	// Latest is the version to which Up goes.
	Latest = 1
	// Newest is the last version that this binary works with: the next release's.
	Newest = Latest + 1
)

// version is one step of the schema: its statements, each run by itself and named for the first word of its header.
type version struct {
	number int64
	texts  func(cfg Config) []string
}

// known are the versions of this binary, in order.
var known = []version{
	{1, func(cfg Config) []string {
		return append(pgstore.Install(cfg.Schema), text("partitions", cfg))
	}},
}

//go:embed sql/*.sql
var files embed.FS

// simple is how every statement is sent, whatever the pool's default: it takes several statements in one text, and
// leaves none prepared on a connection that a pooler hands on.
const simple = pgx.QueryExecModeSimpleProtocol

// text returns a statement of this package for a schema. more are pairs of a parameter and its value. All are put
// into the text, none sent beside it, so that the same text serves the script.
func text(name string, cfg Config, more ...string) string {
	raw, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic("migrate: no statement " + name)
	}
	quoted := `"` + cfg.Schema + `"` // it may be a reserved word
	pairs := append([]string{
		`weir.`, quoted + `.`,
		`"weir"`, quoted,
		`:environment`, cfg.Environment,
		`:width`, cfg.Partitions.String(),
		`:ahead`, strconv.Itoa(cfg.Ahead),
		`:lock_timeout`, strconv.FormatInt(cfg.LockTimeout.Milliseconds(), 10),
	}, more...)
	return strings.NewReplacer(pairs...).Replace(string(raw))
}

// versionText is text for a statement about one version.
func versionText(name string, cfg Config, number int64) string {
	return text(name, cfg, ":version", strconv.FormatInt(number, 10))
}

// heading returns the name that a statement's header gives it, for errors.
func heading(statement string) string {
	line, _, _ := strings.Cut(statement, "\n")
	name, _, ok := strings.Cut(strings.TrimPrefix(line, "-- "), ":")
	if !ok || !strings.HasPrefix(line, "-- ") {
		return fmt.Sprintf("%.40s", line)
	}
	return name
}
