package run

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
	_ "time/tzdata" // schedules name time zones, and containers often know none

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// configOwner owns the schedules of the configuration.
const configOwner = "config"

// lastSync is how seldom a declaration that fails is tried again.
const lastSync = 30 * time.Second

// declareSchedules declares the schedules of the configuration, if it speaks of them, and returns a function that waits for the
// end of it. The sweeper's duties do not wait: what fails is tried again until ctx ends.
func (p *process) declareSchedules(ctx context.Context, c *client.Client) (wait func()) {
	if p.loaded.Source("sweeper.schedules") == "default" {
		return func() {}
	}
	var wg sync.WaitGroup
	list := Schedules(p.loaded.Config)
	wg.Go(func() {
		err := declare(ctx, p.log, func() error {
			// The last to start wins: one and the same version, whatever the program's own.
			return c.SyncSchedules(ctx, configOwner, list, client.SyncOptions{Version: 1})
		})
		if err == nil {
			p.log.Info("schedules of the configuration declared", "owner", configOwner, "schedules", len(list))
		}
	})
	return wg.Wait
}

// declare calls sync until it succeeds; the error is ctx's.
func declare(ctx context.Context, log *slog.Logger, sync func() error) error {
	told := ""
	for wait := firstWait; ; wait = min(2*wait, lastSync) {
		err := sync()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if text := err.Error(); text != told {
			told = text
			log.Error("schedules of the configuration are not declared; it is tried again", "error", text)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// Schedules returns the schedules of cfg for client.SyncSchedules.
func Schedules(cfg config.Config) []client.Schedule {
	list := make([]client.Schedule, len(cfg.Sweeper.Schedules))
	for i, s := range cfg.Sweeper.Schedules {
		list[i] = client.Schedule{
			Name: s.Name, Cron: s.Cron, Zone: s.Zone, Every: s.Every, FirstIn: s.FirstIn,
			Args: job.Raw{Name: s.Kind, Payload: json.RawMessage(s.Payload)},
			Options: job.Options{
				Queue: s.Queue, Priority: s.Priority, MaxAttempts: s.MaxAttempts, Timeout: s.Timeout, ExpiresIn: s.ExpiresIn, Tags: s.Tags,
			},
			Misfire: client.Misfire(s.Misfire), MisfireCap: s.MisfireCap, Disabled: s.Disabled,
		}
	}
	return list
}
