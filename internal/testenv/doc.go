// Package testenv gives tests the servers they need, so that `go test ./...` needs nothing but Go and, if present, the
// binaries of Postgres and Redis.
//
// [Postgres] and [Redis] name one shared server per test process, started when first asked for; a test isolates itself by
// a [Namespace] of its own, its schema and key prefix. A test that kills, pauses, restarts or flushes a server takes a
// [PrivatePostgres] or [PrivateRedis]. [RedisClient] runs the same test with Redis, with miniredis and without.
//
// WEIR_TEST_POSTGRES_URL and WEIR_TEST_REDIS_URL (or else WEIR_POSTGRES_URL and WEIR_REDIS_URL) name servers to use as
// the shared ones. They are not flushed, and nothing outside the tests' own namespaces is touched.
//
// The shared servers end with the test process, however it ends: see package embedded. [Main] ends them in order and
// reports goroutines that leak:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// With -v each test says where its shared server is and whether its writes are made durable: a private shared one runs
// with fsync off, which no test of durability or speed may use.
package testenv
