package sweeper

import "time"

// tolerance is how late a tick may be, and how far the database clock may be from our own in between two heartbeats.
const tolerance = time.Second

// trust decides whether this sweeper may call others dead. A session whose lease has ended may belong to a process that
// could not renew: since the database was away, or everything stood still, or its clock was set. All of that hits the
// sweeper as well, so it counts its own work without a break. Times are local with a monotonic reading; callers give
// them, so that every rule is tested alone.
type trust struct {
	every time.Duration // between two heartbeats

	since  time.Time // when the first committed heartbeat of the present stretch was answered; zero: none
	beatAt time.Time // when the last one was answered
	sentAt time.Time // when it was sent
	dbAt   time.Time // the database clock in it
	tickAt time.Time // the last tick of the duty recover
}

// restart ends the stretch: trust begins anew with the next committed heartbeat.
func (t *trust) restart() { t.since = time.Time{} }

// tick notes that the duty recover began at now, every being its longest wait. One that is late means that this
// process, and who knows what else, stood still.
func (t *trust) tick(now time.Time, every time.Duration) {
	if !t.tickAt.IsZero() && now.Sub(t.tickAt) > every+tolerance {
		t.restart()
	}
	t.tickAt = now
}

// ran notes that a statement took so long. strictGap: as slow as a renewal (gap) means that renewals may have been as
// slow, and a lease may have ended for that.
func (t *trust) ran(took, gap time.Duration) {
	if took >= gap {
		t.restart()
	}
}

// failed notes a heartbeat, or a statement of the duty recover, that was not committed.
func (t *trust) failed() { t.restart() }

// beat notes a heartbeat that was committed: sent and answered at local times, db the database clock in between.
func (t *trust) beat(sent, answered, db time.Time) {
	if !t.beatAt.IsZero() && (sent.Sub(t.beatAt) > t.every+tolerance || !t.clocksAgree(sent, answered, db)) {
		t.restart()
	}
	if t.since.IsZero() {
		t.since = answered
	}
	t.sentAt, t.beatAt, t.dbAt = sent, answered, db
}

// clocksAgree reports whether the database clock went as far as ours since the last heartbeat (clockCheck). A clock
// that was set, or a machine that slept, ends all leases at once.
func (t *trust) clocksAgree(sent, answered, db time.Time) bool {
	went := db.Sub(t.dbAt)
	least, most := sent.Sub(t.beatAt), answered.Sub(t.sentAt)
	return went >= least-tolerance && went <= most+tolerance
}

// holds reports whether sessions may be marked dead at now: after one full lease of own work (trust) of which the last
// committed write is not overdue (trustWrites).
func (t *trust) holds(now time.Time, lease time.Duration) bool {
	if t.since.IsZero() || now.Sub(t.since) < lease {
		return false
	}
	return now.Sub(t.beatAt) <= t.every+tolerance
}

// by returns the database time after which a mark decided on at now must not be made (clockCheck, for what happens
// between the decision and the statement).
func (t *trust) by(now time.Time) time.Time {
	return t.dbAt.Add(now.Sub(t.beatAt) + tolerance)
}
