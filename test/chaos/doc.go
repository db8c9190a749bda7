// Package chaos tries to break Weir's promises with whole processes and real faults: its tests start workers, sweepers
// and producers as processes of their own, on private servers, and kill, stop, starve and cut off what they can.
//
//	go test ./test/chaos           the short forms: a lease of 4 s, bounds with 4 s to spare, some minutes
//	go test ./test/chaos -long     the literal numbers of the promises: a lease of 15 s, up to ten minutes a test
//
// (or WEIR_TEST_LONG=1.) A short form shortens the waiting, never the property. README.md lists the faults, with the test
// of each and what came of it. TestSoak brings about most of them at random, with -long for half an hour (and -soak 2h for two), and
// then nothing may have grown.
//
// # The oracle
//
// What the queue says of itself is compared with a ledger that no fault touches: a file for each process, to which it
// appends a line for every enqueue that was acknowledged and every start and end of a handler, each with one write. What
// was written survives a SIGKILL of the process and any death of the servers. After each run audit_test.go compares:
//
//   - P1: every acknowledged id has ended, exactly once (or is still live, where the test says so);
//   - P2: nothing has run whose insert was not committed, nor before its time;
//   - P3: no id has two outcomes, and the outcome is that of the claim whose handler the ledger saw end;
//   - no handler has started more often than the fault allows, and crashes have used no attempts;
//   - at rest nothing is running and no transaction is left open.
//
// # Keys
//
// Who holds a key is kept in a book of its own: a table outside of the queue, into which handlers write on a connection
// that no fault touches when they begin and when they end, with the database's clock. A run ends with its handler or with
// its lease, whichever is first; what a process that stood still does after that is refused by its fence. P4 is that no key
// ever has more runs at once than its limit. A trial lets jobs come while faults happen that its seed has chosen:
//
//	go test ./test/chaos -run NoKeyHas                        a trial for each group of faults, with new seeds
//	go test ./test/chaos -run NoKeyHas -seed 4711             again what a failed one has printed
//	go test ./test/chaos -run NoKeyHas -long -timeout 3h -parallel 3    each fault alone and all at once, 20 seeds
package chaos
