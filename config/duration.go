package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var (
	durationForm = regexp.MustCompile(`^(?:([0-9]+)d)?((?:[0-9]+(?:\.[0-9]+)?(?:h|m|s|ms|us|µs|ns))*)$`)
	bareNumber   = regexp.MustCompile(`^[+-]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?$`)

	errNoUnit   = errors.New("is a duration without a unit")
	errDuration = errors.New("is not a duration")
	errTooLong  = errors.New("is too long to count")
)

// parseDuration reads Go's form of a duration without sign or spaces, with whole days in front if any: 250ms, 1h30m, 14d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	if bareNumber.MatchString(s) {
		return 0, errNoUnit
	}
	m := durationForm.FindStringSubmatch(s)
	if s == "" || m == nil {
		return 0, errDuration
	}
	var total time.Duration
	if m[1] != "" {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || n > int64(math.MaxInt64/day) {
			return 0, errTooLong
		}
		total = time.Duration(n) * day
	}
	if m[2] == "" {
		return total, nil
	}
	rest, err := time.ParseDuration(m[2])
	if err != nil || total > math.MaxInt64-rest {
		return 0, errTooLong
	}
	return total + rest, nil
}

// formatDuration writes d as parseDuration reads it: days from two whole ones on, no trailing zero parts.
func formatDuration(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
