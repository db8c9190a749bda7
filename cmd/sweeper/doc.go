// Command sweeper keeps a deployment in order: it gives the jobs of dead processes to others, wakes workers when jobs come
// due, ends what has expired, and makes and retires partitions. One is enough; more are safe.
package main
