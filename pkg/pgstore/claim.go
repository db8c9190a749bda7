package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weirq/weir/pkg/job"
)

// Ranges is how many ranges of a queue a claim scans: of each priority the jobs without keys, then of each those with keys:
// priority p has the ranges p-1 and job.MaxPriority+p-1.
const Ranges = 2 * job.MaxPriority

// MaxClaimBytes is the most payload that one claim returns.
const MaxClaimBytes = 16 << 20

// Position is a place in a queue's order of one priority: the next scan starts there. The zero Position is the start.
type Position struct {
	ReadyAt time.Time
	ID      job.ID
}

// Compare orders positions.
func (p Position) Compare(q Position) int {
	if c := p.ReadyAt.Compare(q.ReadyAt); c != 0 {
		return c
	}
	return slices.Compare(p.ID[:], q.ID[:])
}

// ClaimQueue is one queue of a claim.
type ClaimQueue struct {
	Name   string
	Slots  int              // jobs wanted at most, candidates among them; 0: none
	Starts [Ranges]Position // of each range
	Mode   job.Mode         // the most isolated that is accepted
	Alone  int              // slots kept for jobs with keys: so many that are alone with their only lock are taken at once
}

// ClaimRequest says what a process can take.
type ClaimRequest struct {
	Session job.ID
	Queues  []ClaimQueue // in the order in which they are served
	Kinds   []string
	Suspect bool    // a job that was running when two processes died may be taken, one
	Poll    bool    // also return Snapshot, XID and Held
	Total   int     // most jobs of all queues together; zero means the sum of their slots
	NoNext  bool    // Claimed.Next is not wanted
	Force   bool    // claim also where many others are claiming
	Rooms   []int32 // how many of each kind may be taken, in step with Kinds; -1: any number; nil: any of all
}

func (r *ClaimRequest) total() int {
	if r.Total > 0 {
		return r.Total
	}
	sum := 0
	for _, q := range r.Queues {
		sum += q.Slots
	}
	return sum
}

// Scan says how far the scan of one queue and priority went.
type Scan int16

// What became of a scan.
const (
	NotScanned Scan = 0
	Complete   Scan = 1 // all that was due from the start on was seen
	Cut        Scan = 2 // the slots or the bytes were used up
)

// Claimed is the answer to a claim. Nothing in it may start before Claim has returned: rows reach the client before
// the commit.
type Claimed struct {
	Jobs     []job.Row // sorted as in the request: queue, priority, ready_at, id; State is Running
	Missing  []job.Row // claimed too, but without a log row: no payload
	Now      time.Time // statement's time on the database clock: up to here the scans looked
	Next     time.Time // when the next job of these queues is due, of any kind; zero: none, or not looked for
	Scans    [][Ranges]Scan
	Snapshot string // for a poll: pg_snapshot taken before the scans
	XID      string // for a poll: the claim's own transaction
	Held     [][Ranges]time.Time
	// Contended says that a queue was left alone, its scans not made, since many were claiming from it: come back in a
	// few milliseconds.
	Contended bool
	// Candidates are jobs with keys, for Admit: not claimed and not locked. (Those taken by ClaimQueue.Alone are in Jobs.) Sorted as
	// Jobs; together with those they are at most the slots that were asked for, and the first of both.
	Candidates []Candidate
	// Limited says that a limit of a queue for the whole fleet cut its scans: another claim brings more only after a job of
	// that queue has ended or, for a rate, at Next.
	Limited bool
}

const claimColumns = `id, kind, queue, priority, attempt, max_attempts, crashes, fence, ready_at, claimed_at, expires_at,
 missing, payload, enqueued_at, scheduled_at, timeout_ms, backoff, tags, metadata, trace, parent_id,
 db_now, next_at, scans, snap, xid, held, contended, limited, mode, keys, key_limits`

// Claim takes due jobs for a session. ErrSessionLost means that the session was given away. After any other error the
// jobs may have been claimed: Held tells.
func (s *Store) Claim(ctx context.Context, req ClaimRequest) (Claimed, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	n := len(req.Queues)
	names, slots, modes, alone := make([]string, n), make([]int32, n), make([]int16, n), make([]int32, n)
	starts := make([]pgtype.Timestamptz, 0, n*Ranges)
	startIDs := make([][16]byte, 0, n*Ranges)
	for i, q := range req.Queues {
		names[i], slots[i], modes[i], alone[i] = q.Name, int32(q.Slots), int16(q.Mode), int32(q.Alone)
		for _, p := range q.Starts {
			at := pgtype.Timestamptz{Time: p.ReadyAt, Valid: true}
			if p.ReadyAt.IsZero() {
				at = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
			}
			starts, startIDs = append(starts, at), append(startIDs, p.ID)
		}
	}
	rows, err := s.query(ctx, s.call("claim_v1", claimColumns, 15), [16]byte(req.Session), names, slots, notNil(req.Kinds),
		starts, startIDs, req.Suspect, int64(MaxClaimBytes), req.Poll, int32(req.total()), !req.NoNext, req.Rooms, req.Force, modes, alone)
	if err != nil {
		return Claimed{}, fmt.Errorf("claim: %w", Classify(err))
	}
	out, err := readClaimed(rows, req.total())
	if err != nil {
		return Claimed{}, fmt.Errorf("claim: %w", Classify(err))
	}
	sortClaimed(out.Jobs, names)
	sortCandidates(out.Candidates, names)
	if err := s.addKept(ctx, &out.Jobs, &out.Missing); err != nil {
		return Claimed{}, fmt.Errorf("%w: %w", ErrHalfRead, err)
	}
	return out, nil
}

// ErrHalfRead reports a claim that was committed and whose payloads could not all be read: the session holds the jobs.
var ErrHalfRead = errors.New("pgstore: claimed, but not all payloads could be read")

// readClaimed reads the whole answer, at most some wanted jobs, and the end of the statement before it returns anything.
func readClaimed(rows pgx.Rows, wanted int) (Claimed, error) {
	defer rows.Close()
	var (
		out Claimed
		r   claimRow
	)
	targets := r.targets()
	for rows.Next() {
		r = claimRow{}
		if err := rows.Scan(targets...); err != nil {
			return Claimed{}, err
		}
		if out.Jobs == nil && r.id.Valid {
			out.Jobs = make([]job.Row, 0, min(wanted, 2048))
		}
		switch {
		case !r.id.Valid:
			r.meta(&out)
		case !r.missing.Valid:
			c, err := r.candidate()
			if err != nil {
				return Claimed{}, err
			}
			out.Candidates = append(out.Candidates, c)
		case r.missing.Bool:
			out.Missing = append(out.Missing, r.job())
		default:
			out.Jobs = append(out.Jobs, r.job())
		}
	}
	return out, rows.Err()
}

// addKept finds the log rows of jobs that outlived the log's retention, and moves them from missing to jobs.
func (s *Store) addKept(ctx context.Context, jobs, missing *[]job.Row) error {
	if len(*missing) == 0 {
		return nil
	}
	ids := make([]job.ID, len(*missing))
	for i := range *missing {
		ids[i] = (*missing)[i].ID
	}
	rows, err := s.query(ctx, s.sql["kept"], raw(ids))
	if err != nil {
		return fmt.Errorf("claim: read kept log rows: %w", Classify(err))
	}
	defer rows.Close()
	kept := make(map[job.ID]claimRow, len(ids))
	for rows.Next() {
		var r claimRow
		if err := rows.Scan(&r.id, &r.payload, &r.enqueued, &r.scheduled, &r.timeout, &r.backoff, &r.tags, &r.metadata,
			&r.trace, &r.parent); err != nil {
			return fmt.Errorf("claim: read kept log rows: %w", err)
		}
		kept[r.id.Bytes] = r
	}
	still := (*missing)[:0]
	for _, row := range *missing {
		if r, ok := kept[row.ID]; ok {
			r.log(&row)
			*jobs = append(*jobs, row)
		} else {
			still = append(still, row)
		}
	}
	*missing = still
	return rows.Err()
}

func sortClaimed(jobs []job.Row, queues []string) {
	place := make(map[string]int, len(queues))
	for i, q := range queues {
		place[q] = i
	}
	slices.SortFunc(jobs, func(a, b job.Row) int {
		return cmp.Or(
			cmp.Compare(place[a.Queue], place[b.Queue]),
			cmp.Compare(a.Priority, b.Priority),
			a.ReadyAt.Compare(b.ReadyAt),
			slices.Compare(a.ID[:], b.ID[:]),
		)
	})
}

func sortCandidates(jobs []Candidate, queues []string) {
	slices.SortFunc(jobs, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(slices.Index(queues, a.Queue), slices.Index(queues, b.Queue)),
			cmp.Compare(a.Priority, b.Priority),
			a.ReadyAt.Compare(b.ReadyAt),
			slices.Compare(a.ID[:], b.ID[:]),
		)
	})
}

// Snapshot returns the transactions that run now, as a pg_snapshot's text.
func (s *Store) Snapshot(ctx context.Context) (text string, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err = s.row(ctx, s.sql["snapshot"]).Scan(&text); err != nil {
		return "", fmt.Errorf("read snapshot: %w", Classify(err))
	}
	return text, nil
}
