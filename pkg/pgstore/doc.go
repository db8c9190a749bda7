// Package pgstore is Weir's Postgres: the log of jobs and payloads, and the only authority.
//
// All SQL lies in sql/, a statement or function a file, beside a Go file of the same verb: enqueue, claim, renew, finish,
// retry, bury, release, recover. Hot statements are functions that pin their planner settings and carry a version, so
// that plans do not depend on when they were made and two releases can run on one schema. Package migrate installs
// them.
//
// Every write of a claim's holder carries the fence and the session it believes in; one that is out of date changes
// nothing, and the caller learns it from what is missing in the answer. Whoever else takes a claim away raises the fence. All
// times are the database's: callers send durations. The package knows no Redis and is not covered by the compatibility
// promise.
package pgstore
