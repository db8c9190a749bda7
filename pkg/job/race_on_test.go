//go:build race

package job_test

// raceEnabled makes the tests of many ids smaller: the race detector costs about ten times the time.
const raceEnabled = true
