package migrate

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// Config says which schema, and how its first partitions are made.
type Config struct {
	// Schema is the name, [a-z][a-z0-9_]{0,30}; it may be a reserved word. Zero means "weir".
	Schema string
	// Environment is kept in the schema by the first Up that says one; whoever says another afterwards is refused, so
	// that staging never works on production's database. Letters, digits, dots, dashes and underscores, at most 64.
	// Zero means: not said, and not checked.
	Environment string
	// Partitions is the width of the partitions that the first version makes. Zero means pgstore.Day.
	Partitions pgstore.Width
	// Ahead is how many partitions the first version makes beyond the present one, at most 400; the sweeper makes the
	// later ones. Zero means Partitions.Ahead().
	Ahead int
	// LockTimeout bounds each wait for the lock of a table in use, in whole milliseconds; a version that gives up is
	// tried again, ten times in all. Waiting for other starters is bounded by the context alone. Zero means 3 s.
	LockTimeout time.Duration
}

const maxAhead = 400

var (
	schemaForm      = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)
	environmentForm = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`) // also what makes it safe between quotes in a script
)

// withDefaults returns the configuration that is meant, or an error that names the field.
func (c Config) withDefaults() (Config, error) {
	if c.Schema == "" {
		c.Schema = "weir"
	}
	if !schemaForm.MatchString(c.Schema) {
		return c, fmt.Errorf("migrate: Schema %q: want [a-z][a-z0-9_]{0,30}", c.Schema)
	}
	if !environmentForm.MatchString(c.Environment) {
		return c, fmt.Errorf("migrate: Environment %q: want letters, digits, dots, dashes and underscores, at most 64", c.Environment)
	}
	if !c.Partitions.Valid() {
		return c, fmt.Errorf("migrate: Partitions: %s is not a width", c.Partitions)
	}
	if c.Ahead == 0 {
		c.Ahead = c.Partitions.Ahead()
	}
	if c.Ahead < 1 || c.Ahead > maxAhead {
		return c, fmt.Errorf("migrate: Ahead: %d is not 1 to %d", c.Ahead, maxAhead)
	}
	if c.LockTimeout == 0 {
		c.LockTimeout = 3 * time.Second
	}
	if c.LockTimeout < time.Millisecond || c.LockTimeout > time.Hour {
		return c, fmt.Errorf("migrate: LockTimeout: %s is not 1ms to 1h", c.LockTimeout)
	}
	return c, nil
}
