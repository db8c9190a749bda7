package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoBinary reports that a server's program is not on this machine.
var ErrNoBinary = errors.New("embedded: program not found")

// notFound is an ErrNoBinary whose text says for a user what to do.
type notFound string

func (e notFound) Error() string { return string(e) }
func (e notFound) Unwrap() error { return ErrNoBinary }

// binDirs are where packages put Postgres: Debian, Red Hat, Homebrew on ARM and Intel, Postgres.app, FreeBSD.
var binDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin",
	"/usr/local/bin",
}

// binaries is a directory with postgres and initdb, and the major version of the former.
type binaries struct {
	dir   string
	major int
}

// findPostgres returns the first usable binaries: those on PATH, then those of binDirs, highest version first.
// A major other than 0 is the only one that will do. Postgres 14 is the oldest that Weir runs on.
func findPostgres(major int, as *account) (binaries, error) {
	var why []string
	for _, dir := range postgresDirs() {
		b, err := look(dir, as)
		switch {
		case err != nil:
			why = append(why, err.Error())
		case major != 0 && b.major != major:
			why = append(why, fmt.Sprintf("%s is version %d, the data are of %d", dir, b.major, major))
		case b.major < 14:
			why = append(why, fmt.Sprintf("%s is version %d, 14 is needed", dir, b.major))
		default:
			return b, nil
		}
	}
	text := "no Postgres found: set WEIR_POSTGRES_URL, or install postgresql; looked in: $PATH, " + strings.Join(binDirs, ", ")
	if why != nil {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	return binaries{}, notFound(text)
}

// postgresDirs lists the directories that hold a program named postgres, in the order of preference.
func postgresDirs() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// Links are followed: initdb looks for postgres beside the real file, and PATH may hold links to one of them only.
		if abs, err := filepath.Abs(path); err == nil {
			dirs = append(dirs, filepath.Dir(resolved(abs)))
		}
	}
	for _, pattern := range binDirs {
		found, _ := filepath.Glob(filepath.Join(pattern, "postgres")) // the patterns are constants
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		for _, path := range found {
			if dir := filepath.Dir(path); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// versionIn returns the first number in a path such as /usr/lib/postgresql/15/bin/postgres; 0 if there is none.
func versionIn(path string) int {
	start := strings.IndexAny(path, "0123456789")
	if start < 0 {
		return 0
	}
	digits := path[start:]
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, _ := strconv.Atoi(digits) // too many digits: no version, 0 will do
	return n
}

// look checks that dir has both programs, that the account may run them, and asks for the version.
func look(dir string, as *account) (binaries, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return binaries{}, fmt.Errorf("no initdb in %s", dir)
	}
	if err := as.canEnter(dir); err != nil {
		return binaries{}, err
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("ask %s for its version: %w", dir, err)
	}
	major := versionIn(string(out)) // "postgres (PostgreSQL) 15.8 (Debian …)"
	if major == 0 {
		return binaries{}, fmt.Errorf("no version in what %s says", dir)
	}
	return binaries{dir: dir, major: major}, nil
}
