package coord

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxHorizon is how far ahead an instant is given, and how long it is remembered after it has passed.
const maxHorizon = time.Minute

// maxRateJobs is how many jobs one call of reserve.lua takes; more go in several calls.
const maxRateJobs = 128

// RateKey is a rate that a job counts for.
type RateKey struct {
	Name string // at most 255 bytes, any bytes

	// N is how much weight may start in any window of Per. Below one: the rate is closed, its jobs are parked.
	N int

	// Per is the window, in whole milliseconds, at least one. Jobs that share a name should agree on it: while several
	// are in use the grain of time is that of the longest, which lets the jobs of a much shorter one start late.
	Per time.Duration

	// Weight is how much one start counts for. Below one means one, above N counts as N.
	Weight int
}

// RateJob is a job that wants to start.
type RateJob struct {
	// Member names one claim of the job, such as "<id>:<fence>": with another fence it wants another instant.
	Member string

	Rates []RateKey // all with different names

	// NotBefore is how long from now the job must wait in any case. Zero or less: not at all.
	NotBefore time.Duration
}

// Reserve gives each job the earliest instant at which all its rates have room: now (wait 0), or one that should become its
// ready_at. A job that comes again when its instant has come may start; one that comes before gets the rest of its wait,
// so a throttled job asks twice. An instant that would lie more than horizon ahead (zero: 60s, the most) is not given:
// the job is parked, nothing is kept for it, and it should ask again after wait, which is horizon.
//
// It keeps two promises apart:
//
//   - What starts. A job gets wait 0 only if at most N weight of what really started, or is promised, falls into a window of
//     Per + 1 % that ends now. So no window of Per ever sees more than N grants, whatever was planned before; the 1 % is for
//     what lies between the grant and the handler's start, which differs from job to job by some milliseconds. This holds
//     while Redis keeps its data; after a loss a window may see N more.
//   - What is planned. Jobs that must wait stand in line, evenly spaced, Weight / N of Per + 2 % apart. A full line is a
//     flow of 98 % of the rate with nearly as much in every window, not a burst at the start of each, and a job that is
//     up to 1 % of Per late does not find its window taken by those before it that were late too. If it does, it waits the
//     little that it takes for one to leave; that is the third question that it asks, and the only one it did not plan for.
//
// Time is counted in buckets of Per/200, at least 1ms: memory is bounded (some 200 buckets behind and a minute's ahead)
// for any N, and the windows above are whole buckets. For Per below 200ms they are 2 and 4ms wider than Per.
// Jobs in line are remembered up to 100,000 a rate; more are parked. A job that comes up to a minute after its instant,
// since all slots were busy, still starts at once if there is room, before those in line.
//
// Instants that Unreserve gives back are given away first. A job of several rates starts when the slowest has room, and
// pushes nobody's line but that one's. Without Redis, and when it does not answer, the error is ErrUnavailable; what
// was reserved is kept for the next try with the same Member.
func (b *Bus) Reserve(ctx context.Context, jobs []RateJob, horizon time.Duration) (wait []time.Duration, parked []bool, err error) {
	if err := checkRates("reserve", jobs); err != nil {
		return nil, nil, err
	}
	if !b.Enabled() {
		return nil, nil, fmt.Errorf("reserve: %w: there is none", ErrUnavailable)
	}
	if horizon <= 0 || horizon > maxHorizon {
		horizon = maxHorizon
	}
	for from, n := 0, 0; from < len(jobs); from += n {
		n = min(maxRateJobs, fit(jobs[from:], func(j RateJob) int { return 4 * len(j.Rates) }))
		got, err := b.reservePart(ctx, jobs[from:from+n], horizon)
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i < len(got); i += 2 {
			wait = append(wait, time.Duration(got[i])*time.Millisecond)
			parked = append(parked, got[i+1] == 1)
		}
	}
	return wait, parked, nil
}

func (b *Bus) reservePart(ctx context.Context, jobs []RateJob, horizon time.Duration) ([]int64, error) {
	rates := rateIndex{keys: b.keys}
	args := []any{millis(horizon)}
	for _, j := range jobs {
		notBefore := (j.NotBefore + time.Millisecond - 1).Milliseconds()
		args = append(args, j.Member, max(0, notBefore), len(j.Rates))
		for _, r := range j.Rates {
			args = append(args, rates.of(r.Name), r.N, r.Per.Milliseconds(), max(1, r.Weight))
		}
	}
	return ask(ctx, b, "reserve", func(ctx context.Context) ([]int64, error) {
		got, err := reserveScript.Run(ctx, b.rdb, rates.names, args...).Int64Slice()
		return got, wrongLength(err, "reserve", len(got), 2*len(jobs))
	})
}

// Unreserve gives back the instants of jobs that will not use them: cancelled, deleted, expired, or put off by something
// else. What has started, or was allowed to, stays counted. Safe to repeat; without Redis it does nothing.
func (b *Bus) Unreserve(ctx context.Context, jobs []RateJob) error {
	if err := checkRates("unreserve", jobs); err != nil {
		return err
	}
	for from, n := 0, 0; from < len(jobs); from += n {
		n = fit(jobs[from:], func(j RateJob) int { return 4 * len(j.Rates) })
		rates := rateIndex{keys: b.keys}
		args := []any{maxHorizon.Milliseconds()}
		for _, j := range jobs[from : from+n] {
			args = append(args, j.Member, len(j.Rates))
			for _, r := range j.Rates {
				args = append(args, rates.of(r.Name), max(1, min(r.N, r.Weight)))
			}
		}
		err := b.do(ctx, "unreserve", func(ctx context.Context) error {
			return unreserveScript.Run(ctx, b.rdb, rates.names, args...).Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// HoldRate closes a rate for wait from now: no job gets an instant before, and those that hold one are put off when they
// come for it. A longer hold that stands already stays. The truth is in Postgres, see RateJob.NotBefore.
func (b *Bus) HoldRate(ctx context.Context, name string, wait time.Duration) error {
	if err := checkKeys("hold rate", name); err != nil {
		return err
	}
	return b.do(ctx, "hold rate", func(ctx context.Context) error {
		return holdScript.Run(ctx, b.rdb, b.keys.rate(name)[:1], millis(wait)).Err()
	})
}

// rateIndex collects the keys of the different rates of a call.
type rateIndex struct {
	keys  keys
	names []string
	at    map[string]int
}

// of returns the number of a rate in the call; the first has 1.
func (r *rateIndex) of(name string) int {
	if n, ok := r.at[name]; ok {
		return n
	}
	if r.at == nil {
		r.at = map[string]int{}
	}
	r.at[name] = len(r.at) + 1
	r.names = append(r.names, r.keys.rate(name)...)
	return r.at[name]
}

func checkRates(what string, jobs []RateJob) error {
	for _, j := range jobs {
		seen := make(map[string]bool, len(j.Rates))
		for _, r := range j.Rates {
			if err := checkKeys(what, r.Name); err != nil {
				return err
			}
			if r.Per < time.Millisecond {
				return fmt.Errorf("%s: window of %v: limit 1ms or more", what, r.Per)
			}
			if seen[r.Name] {
				return errors.New(what + ": a job names a rate twice")
			}
			seen[r.Name] = true
		}
		if len(j.Rates) == 0 {
			return errors.New(what + ": a job without a rate")
		}
	}
	return nil
}
