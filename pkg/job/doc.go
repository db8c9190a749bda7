// Package job is Weir's vocabulary: what a job is, what may be said about it and how it may change.
//
// Domain code needs nothing but this package: a job's arguments are a struct with a Kind method, its defaults an
// Options method beside it, and a handler speaks to the queue through the errors it returns (Cancel, Discard, Snooze,
// RetryIn, RateBackoff). Keys name what jobs share: locks with so many holders (Mutex, Limit) and rates of starts (Rate). Producers then use package client, workers package worker.
//
// The package does no I/O and imports the standard library and ulid alone.
package job
