package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// overlap is how far every scan goes back behind the database's time, for rows that were committed a little after they
// were stamped and whose hint was lost.
const overlap = 250 * time.Millisecond

// margin is how much earlier than its transaction was seen a row may have been stamped.
const margin = time.Second

// cursor is where the next scan of one range of a queue starts: of a priority, the jobs with keys or those without. A row that becomes visible behind it is found by a
// hint, which lowers it, or by the next poll.
type cursor struct {
	at     pgstore.Position
	lowest pgstore.Position // start of the lowest scan since the last poll, if there was one
	later  bool             // there was one
	held   time.Time        // least row that the last poll saw and did not get: another's claim may roll back
}

// watermark holds the cursors of all queues that a dispatcher serves, and what the rule for polls needs. Behind a
// snapshot that is held elsewhere the dead entries of finished jobs stay in the index; a scan from the start would
// pass them all, each time. It belongs to the dispatcher's goroutine.
type watermark struct {
	lanes    [][pgstore.Ranges]cursor
	polled   time.Time            // database time of the last successful poll; zero: none yet
	open     map[uint64]time.Time // transactions open at that poll and the births from which their rows may date
	counted  map[uint64]bool      // of those: over, and looked after by the poll that is under way
	owed     time.Time            // least birth of those that ended while a poll was under way; zero: none
	whole    bool                 // the next poll starts from nothing: first, another server, a kind was added
	timeline uint64               // highest xid seen; a lower one means another server
}

func newWatermark(queues int) *watermark {
	return &watermark{lanes: make([][pgstore.Ranges]cursor, queues), whole: true}
}

// reset makes the next claim a scan of everything.
func (m *watermark) reset() { m.whole = true }

// lower makes sure that the next scan of a queue sees rows from at on. Zero at means: look at everything.
func (m *watermark) lower(queue int, at time.Time) {
	if at.IsZero() {
		m.whole = true
		return
	}
	for p := range m.lanes[queue] {
		c := &m.lanes[queue][p]
		c.at = least(c.at, pgstore.Position{ReadyAt: at})
	}
}

// lowerKeyed makes sure that the next scan of the jobs with keys of one priority sees rows from a position on.
func (m *watermark) lowerKeyed(queue, priority int, at pgstore.Position) {
	if queue >= 0 && priority >= 1 && priority <= job.MaxPriority {
		c := &m.lanes[queue][job.MaxPriority+priority-1]
		c.at = least(c.at, at)
	}
}

// starts returns where the scans of the next claim begin. now is the database's time, rather too early than too late.
func (m *watermark) starts(now time.Time) [][pgstore.Ranges]pgstore.Position {
	floor := pgstore.Position{ReadyAt: now.Add(-overlap)}
	out := make([][pgstore.Ranges]pgstore.Position, len(m.lanes))
	for q := range m.lanes {
		for p := range m.lanes[q] {
			c := &m.lanes[q][p]
			if m.whole {
				c.at = pgstore.Position{}
			}
			out[q][p] = least(c.at, floor)
		}
	}
	return out
}

// preparePoll lowers every cursor to where a poll must begin: the lowest scan since the last one, the last one itself,
// the rows it saw and did not get, and the birth of each transaction that was open then and is over by snapshot, which
// was taken just now. One that is still open is not looked after yet: else an idle transaction elsewhere would send
// every poll back to its beginning.
func (m *watermark) preparePoll(snapshot string) {
	if m.polled.IsZero() {
		m.whole = true
		return
	}
	running, xmax, err := parseSnapshot(snapshot)
	if err != nil {
		m.whole = true
		return
	}
	from := m.polled.Add(-margin)
	if !m.owed.IsZero() && m.owed.Before(from) {
		from = m.owed
	}
	m.counted = make(map[uint64]bool)
	for x, birth := range m.open {
		if x >= xmax || running[x] {
			continue
		}
		m.counted[x] = true
		if birth.Before(from) {
			from = birth
		}
	}
	for q := range m.lanes {
		for p := range m.lanes[q] {
			c := &m.lanes[q][p]
			c.at = least(c.at, pgstore.Position{ReadyAt: from})
			if c.later {
				c.at = least(c.at, c.lowest)
			}
			if !c.held.IsZero() {
				c.at = least(c.at, pgstore.Position{ReadyAt: c.held})
			}
		}
	}
}

// claimed moves the cursors after a successful claim that began at starts. slots tells which queues were asked.
func (m *watermark) claimed(starts [][pgstore.Ranges]pgstore.Position, got pgstore.Claimed, last [][pgstore.Ranges]pgstore.Position, poll bool) {
	for q := range m.lanes {
		for p := range m.lanes[q] {
			c := &m.lanes[q][p]
			start := starts[q][p]
			switch got.Scans[q][p] {
			case pgstore.Complete:
				c.at = pgstore.Position{ReadyAt: got.Now} // all that was due and visible has been seen
			case pgstore.Cut:
				if c.at = last[q][p]; c.at == (pgstore.Position{}) {
					c.at = start // nothing came of it after all
				}
			case pgstore.NotScanned:
				continue // the start stays owed: a poll lowered c.at itself
			}
			if !c.later || start.Compare(c.lowest) < 0 {
				c.lowest, c.later = start, true
			}
			if poll { // it looks after itself, by held
				c.later = false
				c.held = got.Held[q][p]
			}
		}
	}
	if poll {
		m.afterPoll(got)
	}
}

// failed puts the cursors back to where a failed claim began: it may have locked rows and rolled back.
func (m *watermark) failed(starts [][pgstore.Ranges]pgstore.Position) {
	for q := range m.lanes {
		for p := range m.lanes[q] {
			c := &m.lanes[q][p]
			c.at = least(c.at, starts[q][p])
		}
	}
}

// afterPoll remembers which transactions were open: xip and those begun between the snapshot and the claim's own. A
// transaction seen for the first time may have stamped rows since the poll before, one second of margin off.
func (m *watermark) afterPoll(got pgstore.Claimed) {
	birth := m.polled.Add(-margin) // before the first poll: long ago
	xids, highest, err := openXIDs(got.Snapshot, got.XID)
	if err != nil || highest < m.timeline {
		*m = watermark{lanes: m.lanes, whole: true, timeline: highest} // another server: its transactions are not those
		return
	}
	open := make(map[uint64]time.Time, len(xids))
	m.owed = time.Time{}
	for _, x := range xids {
		if b, ok := m.open[x]; ok {
			open[x] = b
		} else {
			open[x] = birth
		}
	}
	for x, b := range m.open {
		if _, still := open[x]; !still && !m.counted[x] && (m.owed.IsZero() || b.Before(m.owed)) {
			m.owed = b // it ended between the two snapshots: the next poll looks after it
		}
	}
	m.open, m.counted, m.polled, m.timeline, m.whole = open, nil, got.Now, highest, false
}

// openXIDs returns the transactions that a snapshot shows as running and those from its xmax up to own: they have begun
// since, and the list alone would miss the newest.
func openXIDs(snapshot, own string) (open []uint64, highest uint64, err error) {
	running, xmax, err := parseSnapshot(snapshot)
	if err != nil {
		return nil, 0, err
	}
	if highest, err = strconv.ParseUint(own, 10, 64); err != nil {
		return nil, 0, fmt.Errorf("read xid: %w", err)
	}
	for x := range running {
		open = append(open, x)
	}
	for x := xmax; x < highest; x++ {
		open = append(open, x)
	}
	return open, highest, nil
}

// parseSnapshot reads a pg_snapshot, "xmin:xmax:running,…": what is below xmax and not running is over.
func parseSnapshot(snapshot string) (running map[uint64]bool, xmax uint64, err error) {
	parts := strings.Split(snapshot, ":")
	if len(parts) != 3 {
		return nil, 0, fmt.Errorf("read snapshot: %d parts", len(parts))
	}
	if xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("read snapshot: %w", err)
	}
	running = make(map[uint64]bool)
	for _, s := range strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' }) {
		x, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("read snapshot: %w", err)
		}
		running[x] = true
	}
	return running, xmax, nil
}

func least(first pgstore.Position, rest ...pgstore.Position) pgstore.Position {
	for _, p := range rest {
		if p.Compare(first) < 0 {
			first = p
		}
	}
	return first
}
