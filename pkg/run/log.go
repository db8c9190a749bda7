package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weirq/weir/config"
)

// NewLogger returns a logger that writes to w as cfg says. A level or format that cfg does not know is taken for its default.
func NewLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(cfg.Level)) != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// quietRedis sends what go-redis would write to stderr on its own, a line for each try while a server is away, to the debug
// level of log. Its logger is one for the whole program, and it is read without a lock: it is set once, before any client.
var quietRedis = func() func(*slog.Logger) {
	var once sync.Once
	return func(log *slog.Logger) { once.Do(func() { redis.SetLogger(redisLog{log}) }) }
}()

type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, args ...any) {
	if r.log.Enabled(ctx, slog.LevelDebug) {
		r.log.DebugContext(ctx, fmt.Sprintf(format, args...), "from", "go-redis")
	}
}
