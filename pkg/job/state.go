package job

// State is where a job is in its life, in words. The first five are live, the others final.
type State string

// The states of a job.
const (
	Scheduled State = "scheduled" // waits for its time, no attempt used yet
	Available State = "available" // due: a worker with a free slot may claim it
	Running   State = "running"   // claimed by a session
	Blocked   State = "blocked"   // due, but a key it needs is held
	Retrying  State = "retrying"  // waits for its time after an attempt that counts
	Completed State = "completed"
	Discarded State = "discarded" // out of attempts, or given up by its handler
	Cancelled State = "cancelled"
	Expired   State = "expired" // its time passed before it could start
)

// States lists all states in the order of a job's life.
var States = []State{Scheduled, Available, Running, Blocked, Retrying, Completed, Discarded, Cancelled, Expired}

// Final reports whether a job in s never changes again by itself.
func (s State) Final() bool {
	switch s {
	case Completed, Discarded, Cancelled, Expired:
		return true
	}
	return false
}

// Valid reports whether s is one of States.
func (s State) Valid() bool {
	for _, known := range States {
		if s == known {
			return true
		}
	}
	return false
}

// The numbers under which a live job's state is stored in weir.live.state. Scheduled, Available and Retrying are all
// LiveAvailable: whether ready_at is in the future, and whether there was an attempt, tells them apart.
const (
	LiveAvailable int16 = 0
	LiveRunning   int16 = 1
	LiveBlocked   int16 = 2
)

// The numbers under which a final state is stored in weir.dead.state; completed jobs are in weir.outcomes.
const (
	DeadDiscarded int16 = 1
	DeadCancelled int16 = 2
	DeadExpired   int16 = 3
)

// DeadState returns the word of a number in weir.dead.state.
func DeadState(n int16) State {
	switch n {
	case DeadDiscarded:
		return Discarded
	case DeadCancelled:
		return Cancelled
	case DeadExpired:
		return Expired
	}
	return ""
}

// Event is what happens to a job: the verb of a step.
type Event string

// The events that change a job's state.
const (
	Enqueue  Event = "enqueue"
	ComeDue  Event = "come due" // no write: time passes
	Claim    Event = "claim"
	Finish   Event = "finish"  // completed
	Retry    Event = "retry"   // failed, attempts left
	SnoozeIt Event = "snooze"  // put off by its handler
	Drop     Event = "discard" // failed for good
	Stop     Event = "cancel"
	Release  Event = "release" // given back unfinished
	Recover  Event = "recover" // its session died
	Expire   Event = "expire"
	Revive   Event = "revive"    // retried by hand when it had ended
	Block    Event = "block"     // another holds a key that it needs
	PutOff   Event = "put off"   // a rate has no room before a later time
	HandOver Event = "hand over" // it got its keys from whoever had them, and a slot
	Reserve  Event = "reserve"   // it got its keys and no slot: it is next
)

// Transition is one allowed change.
type Transition struct {
	From State // "" before the job exists
	On   Event
	To   State
}

// Transitions is the whole table: what is not in it cannot happen. The SQL is tested against it. A job that waits and is
// retried by hand comes due. A change to Scheduled or Retrying without a wait comes due at once, and is seen as Available.
var Transitions = []Transition{
	{"", Enqueue, Available},
	{"", Enqueue, Scheduled},
	{Scheduled, ComeDue, Available},
	{Retrying, ComeDue, Available},
	{Available, Claim, Running},
	{Available, Block, Blocked},
	{Available, PutOff, Scheduled},
	{Available, PutOff, Retrying},
	{Blocked, HandOver, Running},
	{Blocked, Reserve, Available},
	{Running, Finish, Completed},
	{Running, Retry, Retrying},
	{Running, SnoozeIt, Retrying},
	{Running, SnoozeIt, Available},
	{Running, SnoozeIt, Scheduled}, // no attempt was used, so none has failed yet
	{Running, Drop, Discarded},
	{Running, Stop, Cancelled},
	{Running, Release, Available},
	{Running, Release, Scheduled},
	{Running, Release, Retrying},
	{Running, Recover, Available},
	{Running, Recover, Scheduled}, // second crash: 15 s later; Retrying if attempts were used
	{Running, Recover, Retrying},
	{Running, Recover, Discarded}, // third crash
	{Running, Recover, Cancelled}, // cancelled while its process died
	{Scheduled, Stop, Cancelled},
	{Available, Stop, Cancelled},
	{Blocked, Stop, Cancelled},
	{Retrying, Stop, Cancelled},
	{Available, Expire, Expired},
	{Blocked, Expire, Expired},
	{Retrying, Expire, Expired},
	{Scheduled, Expire, Expired},
	{Discarded, Revive, Available},
	{Cancelled, Revive, Available},
	{Expired, Revive, Available},
}

// Allowed reports whether a job in from may become to by on.
func Allowed(from State, on Event, to State) bool {
	for _, t := range Transitions {
		if t == (Transition{from, on, to}) {
			return true
		}
	}
	return false
}
