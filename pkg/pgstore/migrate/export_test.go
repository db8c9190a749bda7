package migrate

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// UpOfNext is Up of the next release's binary, whose version has the statements that texts returns, anew for each try.
func UpOfNext(ctx context.Context, pool *pgxpool.Pool, cfg Config, texts func() []string) ([]int64, error) {
	m, err := newMigrator(pool, cfg, knownByNext(texts))
	if err != nil {
		return nil, err
	}
	return m.up(ctx)
}

// ScriptOfNext is what SQL of the next release's binary writes.
func ScriptOfNext(from int64, cfg Config, texts func() []string) (string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return "", err
	}
	return script(knownByNext(texts), from, cfg), nil
}

func knownByNext(texts func() []string) []version {
	next := version{Latest + 1, func(Config) []string { return texts() }}
	return append(known[:len(known):len(known)], next)
}
