package run

import (
	"context"
	"time"

	"github.com/weirq/weir/config"
	"github.com/weirq/weir/pkg/client"
)

// limitsRetry is how soon limits that could not be written are written again.
const limitsRetry = 5 * time.Second

// LimitsOf returns the limits of keys and of queues that a configuration owns, for client.SyncLimits; nil for a list that it does
// not speak of.
func LimitsOf(l *config.Loaded) (limits []client.Limit, queues []client.QueueLimit) {
	if l.Source("limits") != "default" {
		limits = []client.Limit{}
		for _, e := range l.Config.Limits {
			limits = append(limits, client.Limit{Key: e.Name, Prefix: e.Prefix, Rate: e.Rate, N: e.Limit, Per: e.Per})
		}
	}
	if l.Source("queues") != "default" {
		queues = []client.QueueLimit{}
		for _, q := range l.Config.Queues {
			queues = append(queues, client.QueueLimit{Name: q.Name, N: q.Limit, Rate: q.Rate, Per: q.Per})
		}
	}
	return limits, queues
}

// ownLimits writes what the configuration owns, and tries until that is done or ctx ends: the sweeper has other duties that do
// not wait for it.
func (p *process) ownLimits(ctx context.Context, c *client.Client) {
	limits, queues := LimitsOf(p.loaded)
	if limits == nil && queues == nil {
		return
	}
	for failed := false; ; failed = true {
		changed, err := c.SyncLimits(ctx, limits, queues)
		if err == nil {
			p.log.Info("limits of keys and queues are those of the configuration", "limits", len(limits), "queues", len(queues), "changed", changed)
			return
		}
		if ctx.Err() != nil {
			return
		}
		if !failed {
			p.log.Warn("limits of the configuration were not written; trying again", "error", err)
		}
		timer := time.NewTimer(limitsRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
