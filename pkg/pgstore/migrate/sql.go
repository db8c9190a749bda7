package migrate

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// SQL writes the versions after from as a script that any tool can run in one transaction, with the schema and the
// table of versions before them and the first partitions, which are computed when the script runs. from is the version
// that the schema is at, 0 for none; on a schema at another version, or of another environment, the script changes
// nothing and ends with an error. Up and the script may meet: they take the same lock.
func SQL(w io.Writer, from int64, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	last := known[len(known)-1].number
	if from < 0 || from > last {
		return fmt.Errorf("migrate: from: version %d is not 0 to %d", from, last)
	}
	if _, err := io.WriteString(w, script(known, from, cfg)); err != nil {
		return fmt.Errorf("write the script of versions %d to %d: %w", from+1, last, err)
	}
	return nil
}

func script(versions []version, from int64, cfg Config) string {
	var b strings.Builder
	last := versions[len(versions)-1].number
	if from == last {
		fmt.Fprintf(&b, "-- Weir, schema %q: nothing to do from version %d.\n", cfg.Schema, from)
		return b.String()
	}
	fmt.Fprintf(&b, "-- Weir, schema %q, from version %d to %d. Run it in one transaction:\n"+
		"--   psql -1 -v ON_ERROR_STOP=1 -f FILE\n", cfg.Schema, from, last)
	put := func(statement string) {
		statement = strings.TrimRight(statement, " \t\n")
		b.WriteString("\n" + statement)
		// On a line of its own: the statement may end in a comment.
		if !strings.HasSuffix(statement, ";") {
			b.WriteString("\n;")
		}
		b.WriteString("\n")
	}
	put(text("begin", cfg))
	put(text("table", cfg))
	put(text("guard", cfg, ":from", strconv.FormatInt(from, 10)))
	for _, v := range versions {
		if v.number <= from {
			continue
		}
		for _, statement := range v.texts(cfg) {
			put(statement)
		}
		put(versionText("record", cfg, v.number))
	}
	return b.String()
}
