package config

import (
	"regexp"
	"strconv"
	"strings"
)

// Error is one fault in the configuration. Load and Read join all they find, so errors.As gives the first.
// Neither field holds a secret.
type Error struct {
	Key     string // the setting, such as "timing.lease" or "worker.queues[1].slots"; empty for a fault of a file as a whole
	Source  string // where it was given: "weir.yaml:12", "WEIR_TIMING_LEASE", "default"
	Problem string // what is wrong and what would be right
}

// Error returns "source: key: problem".
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, p := range []string{e.Source, e.Key, e.Problem} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// plainKey is what may be repeated of a key that is not known. A forgotten space (url:postgres://…) makes a whole URL a key.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// likeSecret matches what may be, or hold, a password that was given to the wrong key.
var likeSecret = regexp.MustCompile(`(?i)://|@|passw`)

// show quotes a value for an error, unless it is long or looks like a connection string.
func show(value string) string {
	if len(value) > 64 || likeSecret.MatchString(value) {
		return "the value (not shown)"
	}
	return strconv.Quote(value)
}

// showPath is show for the name of a file: without a separator it may be the secret itself, written into the key for its file.
func showPath(path string) string {
	if likeSecret.MatchString(path) || !strings.ContainsAny(path, `/\`) || strings.ContainsAny(path, " =\n") {
		return "the file (name not shown: it does not look like a path)"
	}
	return path
}

// didYouMean returns a hint that names word, or nothing.
func didYouMean(word string) string {
	if word == "" {
		return ""
	}
	return "; did you mean " + word + "?"
}
