// Package embedded runs private servers (Postgres, Redis, PgBouncer) for `weir demo`, `weir dev` and the tests.
//
// A private server listens on a loopback port of its own, keeps its data in a directory of its own, and never
// outlives the process that started it. Three things see to that:
//
//   - A watchdog, a small shell process, holds the read end of a pipe whose write end only we hold. The kernel closes
//     it however we die: return, panic, os.Exit, SIGKILL. The watchdog then stops the server and removes what was
//     temporary. Linux' parent-death signal would be simpler but is wrong here: it fires when the *thread* that
//     forked ends, which in a Go program may be any moment, it is cleared by the change of user that Postgres needs,
//     and no other system has it.
//   - A gate: the server's process waits on a pipe until the watchdog knows its process id, so there is no moment in
//     which the server runs unwatched.
//   - A session of its own for each of them, so that Ctrl-C in the terminal reaches only us, and the server is shut
//     down in order.
//
// Postgres refuses to run as root. There it runs as the user postgres or, failing that, nobody, who must be able to
// enter the parents of the data directory.
//
// The servers trust every local user: they are for demonstrations, development and tests, on data that may be seen.
package embedded
