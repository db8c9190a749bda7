// Command peers runs the same work on Weir, River and asynq, in turns, against a Postgres of its own with fsync on and a
// Redis of its own, and prints a line for each figure. See --help.
package main
