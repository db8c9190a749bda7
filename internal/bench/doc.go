// Package bench measures the engine: `weir bench` runs its cases against a private Postgres, with fsync on, and a
// private Redis, or against those that the environment names.
//
// Every case has a schema of its own, says what it measures and returns figures with their units and, where the project
// promises one, the bound that they are held to. Machines are noisy: figures to compare come from one run, and are
// medians of rounds.
package bench
