package test

import (
	"regexp"
	"testing"
)

var scenario = regexp.MustCompile(`(?m)^\| B\d+ \|.*$`)

// A table of tests is worth something as long as they are there.
func TestEveryTestInTheScenariosExists(t *testing.T) {
	t.Parallel()
	const page = "test/SCENARIOS.md"
	tests := checkNamed(t, page)
	if rows := scenario.FindAll(read(t, page), -1); len(rows) < 50 || tests < len(rows) {
		t.Errorf("%s has %d scenarios and %d tests: too few, its form is not what this test reads", page, len(rows), tests)
	}
}
