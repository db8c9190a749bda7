package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirq/weir/pkg/sweeper"
)

// history measures with 10 million outcomes of today and of a day that retention has passed.
func history(ctx context.Context, s *suite, name string) error {
	rows := int(10_000_000 * s.scale)
	open, err := weir.open(ctx, s.s)
	if err != nil {
		return err
	}
	defer open.close()
	a := open.(*weirArena)
	rounds := func() (float64, []float64, error) {
		var values []float64
		for range s.rounds {
			base, err := a.finished(ctx)
			if err != nil {
				return 0, nil, err
			}
			v, err := rateAbove(ctx, a, base, 60_000)
			if err != nil {
				return 0, nil, err
			}
			values = append(values, v)
		}
		return median(values), values, nil
	}
	empty, emptyRounds, err := rounds()
	if err != nil {
		return err
	}
	for _, day := range []int{0, 3} {
		note("history: loading %d outcomes of %d days ago", rows, day)
		if err := a.load(ctx, rows, day); err != nil {
			return err
		}
	}
	full, fullRounds, err := rounds()
	if err != nil {
		return err
	}
	s.out.line(line{Case: name + "_rate", Peer: "self", Ours: full, Theirs: empty, Unit: "jobs/s", OursRounds: fullRounds, TheirsRounds: emptyRounds})
	took, err := a.retire(ctx)
	if err != nil {
		return err
	}
	s.out.line(line{Case: name + "_retention", Peer: "self", Ours: took.Seconds(), Theirs: nan, Unit: "s", OursRounds: []float64{took.Seconds()}})
	return nil
}

// rateAbove is the rate at which jobs are finished when base were before.
func rateAbove(ctx context.Context, a *weirArena, base int64, jobs int) (float64, error) {
	for sent := 0; sent < jobs; sent += 10_000 {
		if err := a.enqueue(ctx, sent, 10_000); err != nil {
			return 0, err
		}
	}
	live := fmt.Sprintf("SELECT count(*) FROM %q.live", a.schema)
	stop, err := a.work(ctx, 100, noop)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	for {
		n, err := a.s.count(ctx, live) // the outcomes would take longer to count than the jobs to finish
		if err != nil || n == 0 || time.Since(begun) > time.Minute {
			rate := float64(jobs) / time.Since(begun).Seconds()
			if e := stop(); err == nil {
				err = e
			}
			return rate, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// load writes outcomes of a day in the past, as that many finished jobs leave them.
func (a *weirArena) load(ctx context.Context, rows, daysAgo int) error {
	day := time.Now().UTC().AddDate(0, 0, -daysAgo).Truncate(24 * time.Hour)
	at := day.Add(time.Second)
	if daysAgo > 0 {
		_, err := a.s.pool.Exec(ctx, fmt.Sprintf("SELECT %q.add_partition_v1('outcomes', $1, $2, $3)", a.schema),
			"outcomes_"+day.Format("20060102"), day.Format("2006-01-02 15:04:05+00"), day.AddDate(0, 0, 1).Format("2006-01-02 15:04:05+00"))
		if err != nil {
			return err
		}
	}
	_, err := a.s.pool.Exec(ctx, fmt.Sprintf(`
INSERT INTO %[1]q.outcomes (finished_at, claimed_at, fence, attempt, id, session, queue)
SELECT $1, $1, 1, 1, %[1]q.new_id(), gen_random_uuid(), 'default' FROM generate_series(1, $2)`, a.schema), at, rows)
	return err
}

// retire times the round of the sweeper that empties what retention has passed.
func (a *weirArena) retire(ctx context.Context) (time.Duration, error) {
	sw, err := sweeper.New(a.workers, sweeper.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	_, err = sw.RunDuty(ctx, "rotate")
	return time.Since(begun), err
}
