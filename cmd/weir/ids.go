package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// crockford is the beginning of a ULID.
var crockford = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{3,24}$`)

// find returns the ids that words name: an id in either form, or the beginning of a ULID that only one job has.
func (s *session) find(ctx context.Context, words []string) ([]job.ID, error) {
	ids := make([]job.ID, 0, len(words))
	for _, word := range words {
		id, err := s.findOne(ctx, word)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (s *session) findOne(ctx context.Context, word string) (job.ID, error) {
	prefix := strings.ToUpper(word)
	if !crockford.MatchString(prefix) {
		id, err := job.ParseID(word)
		if err != nil {
			return id, usageError{fmt.Errorf("%w\n-> or its first 4 to 25 characters", err)}
		}
		return id, nil
	}
	low, err := job.ParseID(prefix + strings.Repeat("0", 26-len(prefix)))
	if err != nil {
		return job.ID{}, usageError{err}
	}
	high, err := job.ParseID(prefix + strings.Repeat("Z", 26-len(prefix)))
	if err != nil {
		return job.ID{}, usageError{err}
	}
	found, err := s.Find(ctx, low, high)
	switch {
	case err != nil:
		return job.ID{}, err
	case len(found) == 0:
		return job.ID{}, fmt.Errorf("no job's id begins with %s: %w", prefix, client.ErrNotFound)
	case len(found) > 1:
		var names []string
		for _, id := range found {
			names = append(names, id.String())
		}
		return job.ID{}, usageError{fmt.Errorf("%s is the beginning of several ids:\n  %s", prefix, strings.Join(names, "\n  "))}
	}
	return found[0], nil
}

var days = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// duration is a flag's value: Go's form with whole days in front, as in the configuration.
type duration time.Duration

// Set implements pflag.Value.
func (d *duration) Set(s string) error {
	var whole time.Duration
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		whole, s = time.Duration(n)*24*time.Hour, m[2]
	}
	var rest time.Duration
	if s != "" || whole == 0 {
		var err error
		if rest, err = time.ParseDuration(s); err != nil || rest < 0 {
			return fmt.Errorf("want a duration such as 250ms, 15s, 1h30m or 14d")
		}
	}
	*d = duration(whole + rest)
	return nil
}

// String implements pflag.Value.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }
