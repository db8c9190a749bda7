// Package model holds the protocols of Weir as small models, and walks through every interleaving of their steps: two
// workers, a sweeper, up to three jobs and two locks, crashes at any point, answers that are lost, statements that commit
// after their client gave up, and a Redis that says anything or is emptied. It needs no server.
//
// explore is the walk. A model gives the first state and the steps from each; in no state may a promise of the design be
// broken, and from every state the end of all work must be in reach by usual steps alone, without faults and without the slow
// second lines (polls, the sweeper's look at idle keys). Steps bear the names of what they stand for: a statement in
// pkg/pgstore/sql, a script in pkg/coord/lua, a file or method of pkg/worker and pkg/sweeper. A violation is told as the
// shortest way there.
//
//   - leases: claim, finish, retry, renew, mark, recover, reconcile.
//   - trusts and watches: when the sweeper may call another dead, and when a worker stops of its own accord. These count time.
//   - locks: admit, block, hand-over, pass, reservation, release, tidying, cancel, a lowered limit, FinishTx. A transaction is two
//     steps: it locks its live rows and decides by a snapshot, then it commits. Redis is only an answer that may be wrong, so
//     that what it holds needs no state.
//   - wakes: the idle set, the pending flag, and who passes a hint on to whom.
//   - enqueues: tries with the same id that commit late, and unique keys.
//
// Each guard of the protocol is a switch. The tests take each away, alone or with those that cover it, and want the
// promise that breaks then (mutations); those that others cover altogether are listed too (secondLines). Two numbers are
// scaled down so that small worlds meet their edges: pass takes one head at a time, not twenty, and a process is given three
// or four sessions.
//
// What is not modelled here, and where it is tested:
//
//   - The watermark: pkg/worker, TestEachPartOfTheWatermarkRuleIsNeeded, a model of its own around the real code.
//   - The Lua scripts of locks and rates: pkg/coord, lock_model_test.go and rate_model_test.go, the scripts beside a model.
//   - score, silent and the sixteen hops of a hint, which need more workers or numbers than fit: pkg/coord,
//     TestAWorkerWithSlotsLeftStaysInTheIdleSet, TestJobsAnnouncedAgainDoNotRelyOnAWorkerThatHasNotAnswered,
//     TestAHintIsGivenUpAfterSixteenHops. partForward has nothing to do as long as a hint names one kind. leaveFirst is a second
//     line here, since a full worker passes hints on: TestLeavingWakesAnotherInTheSameScript.
//   - The limits of a queue, rates, priorities and pauses in hand-overs: pkg/pgstore, keyed_mutation_test.go.
//   - The clocks and bounds in the rules of trust: pkg/sweeper, trust_internal_test.go.
//   - What depends on how Postgres runs one statement (facts 4, 5, 7, 8 and 10 of the protocol): pkg/pgstore, mutation_test.go,
//     keyed_mutation_test.go and unique_test.go.
package model
