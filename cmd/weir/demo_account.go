package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// account asks the database how things stand: what the demo counts by is what was committed there, not what a process
// says of itself. Its client is its own, so that its questions are not counted as the demo's statements.
type account struct {
	client *client.Client
}

// askAtOnce is how many ids one question names.
const askAtOnce = 1000

// process returns the worker or sweeper with this process id; false while it has not registered or after it was given up.
func (a *account) process(ctx context.Context, pid int) (p client.WorkerInfo, ok bool, err error) {
	all, err := a.client.Workers(ctx)
	if err != nil {
		return p, false, fmt.Errorf("look for process %d: %w", pid, err)
	}
	for _, p := range all {
		if p.PID == pid {
			return p, true, nil
		}
	}
	return p, false, nil
}

// held returns the jobs that a session runs.
func (a *account) held(ctx context.Context, session job.ID) ([]job.ID, error) {
	rows, err := a.client.Store().Held(ctx, session)
	if err != nil {
		return nil, err
	}
	ids := make([]job.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids, nil
}

// ends tells ended of every one of ids that has ended, and how.
func (a *account) ends(ctx context.Context, ids []job.ID, ended func(job.ID, job.State)) error {
	for len(ids) > 0 {
		n := min(len(ids), askAtOnce)
		found, err := a.client.Store().Outcomes(ctx, ids[:n])
		if err != nil {
			return err
		}
		for id, o := range found {
			ended(id, o.State)
		}
		ids = ids[n:]
	}
	return nil
}

// crashed counts those of ids in whose history there is a process that died.
func (a *account) crashed(ctx context.Context, ids []job.ID) (n int, err error) {
	for _, id := range ids {
		row, err := a.client.Job(ctx, id)
		if err != nil {
			return n, err
		}
		for _, attempt := range row.Attempts {
			if attempt.Outcome == "crashed" {
				n++
				break
			}
		}
	}
	return n, nil
}

// wal returns how many bytes of WAL the whole server has written since it was made.
func (a *account) wal(ctx context.Context) (bytes float64, err error) {
	err = a.client.Pool().QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("read the position of the WAL: %w", err)
	}
	return bytes, nil
}

// server returns what Postgres says of itself.
func (a *account) server(ctx context.Context) (version, fsync string, err error) {
	const sql = `SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync')`
	if err = a.client.Pool().QueryRow(ctx, sql).Scan(&version, &fsync); err != nil {
		return "", "", fmt.Errorf("ask Postgres for its version: %w", err)
	}
	return version, fsync, nil
}

// standing is how the jobs stand.
type standing struct {
	completed int
	failed    int    // ended otherwise
	running   [2]int // in the workers' hands; asked for only while it matters
}

func (s standing) ended() int { return s.completed + s.failed }

// look asks what has become of the jobs that were started and, while workers hold, what is in their hands.
func (d *demo) look(ctx context.Context) (now standing, err error) {
	if err := d.account.ends(ctx, d.ledger.open(), d.ledger.end); err != nil {
		return now, err
	}
	now.completed, now.failed = d.ledger.ended()
	if d.kill != nil || !d.isHolding() {
		return now, nil
	}
	for i, w := range d.workers {
		p, ok, err := d.account.process(ctx, w.pid())
		if err != nil {
			return now, err
		}
		if !ok {
			continue
		}
		d.sessions[i] = p.ID
		ids, err := d.account.held(ctx, p.ID)
		if err != nil {
			return now, err
		}
		now.running[i] = d.ledger.countJobs(ids)
	}
	return now, nil
}

// awaitProcess waits until a child has registered.
func (d *demo) awaitProcess(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := until(ctx, 10*time.Millisecond, func() (bool, error) {
		if err := d.childrenLive(); err != nil {
			return false, err
		}
		_, ok, err := d.account.process(ctx, c.pid())
		return ok, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s to start: %w", c.name, err)
	}
	return nil
}
