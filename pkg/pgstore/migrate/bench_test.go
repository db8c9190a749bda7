package migrate_test

import (
	"testing"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/pgstore/migrate"
)

// BenchmarkUp is what each test that has a schema of its own pays.
func BenchmarkUp(b *testing.B) {
	pool := testenv.Pool(b, testenv.Postgres(b))
	upTo := func(b *testing.B, schema string) {
		if _, err := migrate.Up(b.Context(), pool, migrate.Config{Schema: schema, Ahead: 1}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("a new schema", func(b *testing.B) {
		for b.Loop() {
			upTo(b, testenv.Namespace(b))
		}
	})
	b.Run("nothing to do", func(b *testing.B) {
		schema := testenv.Namespace(b)
		upTo(b, schema)
		for b.Loop() {
			upTo(b, schema)
		}
	})
}
