package pgstore

import (
	"context"
	"time"

	"github.com/weirq/weir/pkg/job"
)

// Serves says what a process can take over at this moment. Times and slots are its own word; pauses and queue limits are
// looked up.
type Serves struct {
	Queues []string
	Kinds  []string
	// Take is in step with Queues: how many slots of each are kept for jobs that are handed over here. Nil means that none
	// is: whoever is next in line gets a reservation and becomes available.
	Take []int32
	// Reserve is how long a reservation keeps its place: the poll interval and 2 s. Zero means 7 s.
	Reserve time.Duration
}

func (v Serves) columns() (queues, kinds []string, take []int32, reserveMS int64) {
	take = v.Take
	if take == nil {
		take = make([]int32, len(v.Queues))
	}
	return notNil(v.Queues), notNil(v.Kinds), take, reserveMillis(v.Reserve)
}

func reserveMillis(d time.Duration) int64 {
	if d <= 0 {
		d = 7 * time.Second
	}
	return d.Milliseconds()
}

// Candidate is a due job with keys that a claim has seen and not touched: Admit decides.
type Candidate struct {
	ID       job.ID
	Fence    int
	Queue    string
	Kind     string
	Priority int
	ReadyAt  time.Time
	LineAt   time.Time // its place in the lines of its keys
	Attempt  int       // attempts used so far
	Crashes  int       // from 2 on its place is not in the order of the others
	Mode     job.Mode  // the least isolation that its producer asked for
	Keys     []string  // locks, sorted by bytes
	Limits   []int32   // of each of Keys: what counts now, an entry of the limits table before the job's own number
	Rates    []job.Key // what counts now, as for Limits
	Hold     time.Time // until when one of its rates is closed (job.RateBackoff), on the database clock; zero: none is
	Reserved bool      // it owns lock rows: it is next in line, or was released or recovered while it held them
}

// AdmitJob is a candidate as it comes before the database: with Redis' advice, and with what a rate says.
type AdmitJob struct {
	ID      job.ID
	Refused string        // a lock that Redis says is busy: it is blocked on it without a try
	Later   time.Duration // > 0: a rate has room only then. The job waits so long, takes no lock and gives up what it had
}

// Blocked is a job that waits for a key.
type Blocked struct {
	ID  job.ID
	Key string
}

// Waiting is a place in a queue's order.
type Waiting struct {
	ID       job.ID
	Queue    string
	Priority int
	ReadyAt  time.Time
}

// Admission is what became of candidates.
type Admission struct {
	Now       time.Time
	Jobs      []job.Row // running now, here. An older one of the same key may stand in the place of one that was sent
	Missing   []job.Row // running too, but without a log row
	Blocked   []Blocked // also many that were not sent: others that wait for the same key alone
	Throttled []job.ID
	// Left were not touched: locked by another, or an older one of a key comes first. They and that older one are listed;
	// the next scans must see them. One that is not available any more is not listed.
	Left    []Waiting
	Recheck []string            // keys to Pass after this: blocked on, or given up
	Holders map[string][]job.ID // who has the keys that something was blocked on: the truth for Redis
}

// Admit decides about candidates, in one transaction: each runs now, is blocked on a key, waits for a rate, or is left.
// ErrSessionLost: the session was given away. After any other error they may have been admitted: Held tells.
func (s *Store) Admit(ctx context.Context, session job.ID, jobs []AdmitJob, serves Serves) (Admission, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	ids, refused, later := make([][16]byte, len(jobs)), make([]string, len(jobs)), make([]int64, len(jobs))
	for i, j := range jobs {
		ids[i], refused[i], later[i] = j.ID, j.Refused, deref(millis(max(j.Later, 0)))
	}
	queues, kinds, take, reserve := serves.columns()
	rows, err := s.keyed(ctx, "admit_v1", [16]byte(session), ids, refused, later, queues, kinds, take, reserve)
	if err != nil {
		return Admission{}, err
	}
	out := Admission{Now: rows.now, Jobs: rows.jobs, Missing: rows.missing, Left: rows.left, Recheck: rows.freed, Holders: rows.holders}
	out.Blocked, out.Throttled = rows.blocked, rows.throttled
	return out, nil
}
