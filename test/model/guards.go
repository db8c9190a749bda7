package model

import "strings"

// guard is a set of guards, by their names in the protocol. wholeAnswer is fact 2, trustLease its trust; keyDies is
// named in finish.sql, backInLine in tidy_reservations.sql.
type guard uint64

const (
	claimFence guard = 1 << iota
	finishFence
	recoverFence
	sessionGuard
	rescan
	orphans
	adoptFenced
	rowLock
	renewExpired
	wholeAnswer

	fromSent
	trustLease
	trustWrites
	strictGap
	clockCheck

	lockDelFenced
	postPass
	recheck
	cancelPass
	passLoop
	plainRead
	lineCheck
	lostKeeps
	batchOrder
	olderBlocked
	ownRow
	ownRowLimit
	limitCount
	pgReserve
	lockIfFree
	passWaits
	oldestOnly
	lingerKept
	resvAll
	backInLine
	aloneInLine
	aloneUnblocked
	aloneInBatch

	clearFirst
	regFirst
	slotFlag
	busyForward
	kindForward
	closeForward
	fullForward
	leaveFirst
	receivers
	reregister

	liveFromLog
	uniqueAsksLog
	keyDies
	sweepTidies
	sweepByJob
)

// names are those of the constants, in their order.
var names = strings.Fields(`claimFence finishFence recoverFence sessionGuard rescan orphans adoptFenced rowLock renewExpired wholeAnswer
	fromSent trust trustWrites strictGap clockCheck
	lockDelFenced postPass recheck cancelPass passLoop plainRead lineCheck lostKeeps batchOrder olderBlocked ownRow ownRowLimit
	limitCount pgReserve lockIfFree passWaits oldestOnly lingerKept resvAll backInLine aloneInLine aloneUnblocked aloneInBatch
	clearFirst regFirst slotFlag busyForward kindForward closeForward fullForward leaveFirst receivers reregister
	liveFromLog uniqueAsksLog keyDies sweepTidies sweepByJob`)

func (g guard) String() string {
	var out []string
	for i, name := range names {
		if g&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, " + ")
}

// guarded is the switch of a model: the guards that are taken away.
type guarded struct{ off guard }

func (g guarded) on(x guard) bool { return g.off&x == 0 }
