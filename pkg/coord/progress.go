package coord

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// progressTTL is how long the progress of a job is kept that says nothing more: one whose process died leaves nothing for long.
const progressTTL = time.Hour

// Progress is how far a running job says it is.
type Progress struct {
	ID      string
	Percent int
	Note    string
	At      time.Time // on Redis' clock where it was read, to the second; not sent
}

// ShowProgress makes progress visible, all of it in one round trip. The last value of each job counts. It is dropped when Redis
// is away, and forgotten an hour after the last call.
func (b *Bus) ShowProgress(ctx context.Context, all []Progress) error {
	if len(all) == 0 {
		return nil
	}
	return b.do(ctx, "show progress", func(ctx context.Context) error {
		pipe := b.rdb.Pipeline()
		for _, p := range all {
			pipe.Set(ctx, b.keys.progress(p.ID), strconv.Itoa(p.Percent)+" "+p.Note, progressTTL)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
}

// HideProgress forgets the progress of jobs that have ended.
func (b *Bus) HideProgress(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	return b.do(ctx, "hide progress", func(ctx context.Context) error {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = b.keys.progress(id)
		}
		return b.rdb.Del(ctx, names...).Err()
	})
}

// ProgressOf returns what a running job last said; ok is false if it said nothing, or Redis is away.
func (b *Bus) ProgressOf(ctx context.Context, id string) (p Progress, ok bool, err error) {
	type answer struct {
		text string
		left time.Duration
		now  time.Time
	}
	got := make(chan answer, 1) // the command may outlive this call
	err = b.do(ctx, "read progress", func(ctx context.Context) error {
		pipe := b.rdb.Pipeline()
		text, left, now := pipe.Get(ctx, b.keys.progress(id)), pipe.TTL(ctx, b.keys.progress(id)), pipe.Time(ctx)
		_, err := pipe.Exec(ctx)
		if errors.Is(err, redis.Nil) {
			got <- answer{}
			return nil
		}
		got <- answer{text.Val(), left.Val(), now.Val()}
		return err
	})
	if err != nil || !b.Enabled() {
		return Progress{}, false, err
	}
	a := <-got
	number, note, found := strings.Cut(a.text, " ")
	if !found {
		return Progress{}, false, nil
	}
	percent, err := strconv.Atoi(number)
	if err != nil {
		return Progress{}, false, fmt.Errorf("read progress: not a number in front of the note")
	}
	return Progress{ID: id, Percent: percent, Note: note, At: a.now.Add(a.left - progressTTL)}, true, nil
}
