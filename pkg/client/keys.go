package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/coord"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// KeyInfo is a lock at a glance.
type KeyInfo = pgstore.KeyRow

// Keys returns at most limit locks whose names begin with prefix and that somebody has or waits for, the longest lines first.
func (c *Client) Keys(ctx context.Context, prefix string, limit int) ([]KeyInfo, error) {
	if limit < 1 {
		return nil, &job.FieldError{Field: "limit", Got: fmt.Sprint(limit), Limit: "1 or more"}
	}
	if prefix != "" {
		if err := job.ValidateKey(prefix); err != nil {
			return nil, err
		}
	}
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return c.store.Keys(ctx, prefix, limit)
}

// KeyDetail is a name as a lock and as a rate. All times are of the database clock; those of Redis say so.
type KeyDetail struct {
	Name string `json:"key"`
	// Limit is how many may hold the lock at once: that of Entry, else of the oldest holder, else of the first in line, which
	// each count for the job that names them. Zero without an entry: nobody has or wants it.
	Limit int `json:"limit"`
	// Entry is the entry of limits that counts for the lock. Nil: the jobs' own numbers do.
	Entry *Limit `json:"entry,omitempty"`
	// Holders have the lock, by slot, 100 at most.
	Holders []Holder `json:"holders"`
	// Waiting is how many jobs wait for the lock, and Line the first 20 of them.
	Waiting int       `json:"waiting"`
	Line    []Waiting `json:"line"`
	// Took is how long the last jobs that completed with the lock took on average, and Of how many that was, at most 20.
	Took time.Duration `json:"took_ns,omitempty"`
	Of   int           `json:"took_of,omitempty"`
	// Redis says whether Redis and Postgres name the same holders. Nothing depends on it: Postgres decides.
	Redis Agreement `json:"redis"`
	// Rate is the name as a rate; nil if nothing is known of one.
	Rate *RateDetail `json:"rate,omitempty"`
}

// Agreement is how Redis' holders of a lock compare with those of Postgres.
type Agreement string

// The agreements.
const (
	RedisOff     Agreement = "off"     // there is no Redis
	RedisAway    Agreement = "away"    // it does not answer
	RedisAgrees  Agreement = "agrees"  //
	RedisDiffers Agreement = "differs" // for a moment while jobs start and end; else the sweeper mends it within seconds
)

// Holder is a job that has a lock.
type Holder struct {
	Slot int    `json:"slot"`
	ID   job.ID `json:"id"`
	// Kept says that it does not run: it is next in line and a worker is about to take it, or it was released a moment ago by a
	// process that had not let go of it yet. Left is for how long.
	Kept bool          `json:"kept,omitempty"`
	Left time.Duration `json:"left_ns,omitempty"`
	// Kind and Queue are empty if the job is not live any more: the sweeper takes such a row away within seconds.
	Kind    string `json:"kind,omitempty"`
	Queue   string `json:"queue,omitempty"`
	Session job.ID `json:"session,omitzero"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// Since is how long it runs, counted from its claim, and Timeout how long it may, zero if its handler says.
	Since   time.Duration `json:"since_ns,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// Lease is how long its process keeps it if it falls silent now; negative: the next sweep gives it away.
	Lease time.Duration `json:"lease_ns,omitempty"`
	// Progress is what its handler last said; nil: nothing.
	Progress *job.Progress `json:"progress,omitempty"`
}

// Waiting is a job in a line.
type Waiting struct {
	ID    job.ID        `json:"id"`
	Kind  string        `json:"kind"`
	Queue string        `json:"queue"`
	Waits time.Duration `json:"waits_ns"` // since it joined the line: when it was due first, or put off last
}

// RateDetail is a rate: how many starts of weight 1 a window has.
type RateDetail struct {
	Name   string        `json:"rate"`
	N      int           `json:"limit,omitempty"` // zero: no entry, and no job that says
	Per    time.Duration `json:"per_ns,omitempty"`
	Weight int           `json:"weight,omitempty"` // of the job asked about
	Entry  *Limit        `json:"entry,omitempty"`
	// Held is for how long the rate is closed by job.RateBackoff; zero: it is not.
	Held time.Duration `json:"held_ns,omitempty"`
}

const (
	shownHolders = 100
	shownLine    = 20
)

// Key returns who has a lock and who waits for it, and what is known of a rate of the same name. That nobody does is no error.
func (c *Client) Key(ctx context.Context, name string) (KeyDetail, error) {
	if err := job.ValidateKey(name); err != nil {
		return KeyDetail{}, err
	}
	if err := c.enter(); err != nil {
		return KeyDetail{}, err
	}
	defer c.leave()
	d, err := c.lock(ctx, name, 0)
	if err != nil {
		return KeyDetail{}, err
	}
	last := job.ID{0xff}
	if d.Waiting, _, err = c.store.KeyPlace(ctx, name, time.Unix(0, 0), job.ID{}); err != nil {
		return KeyDetail{}, err
	}
	if err := c.addTook(ctx, &d, last); err != nil {
		return KeyDetail{}, err
	}
	rate, err := c.rate(ctx, job.Rate(name, 0, 0).Weight(0))
	if rate.Entry != nil || rate.Held > 0 {
		d.Rate = &rate
	}
	return d, err
}

// lock returns a lock but for what is counted along its line. own is the number of the job asked about; zero: of nobody.
func (c *Client) lock(ctx context.Context, name string, own int) (KeyDetail, error) {
	d := KeyDetail{Name: name, Limit: own, Holders: []Holder{}, Line: []Waiting{}}
	holders, err := c.store.KeyHolders(ctx, name, shownHolders)
	if err != nil {
		return d, err
	}
	line, err := c.store.KeyLine(ctx, name, shownLine)
	if err != nil {
		return d, err
	}
	for _, h := range holders {
		d.Holders = append(d.Holders, c.holder(ctx, h))
	}
	for _, w := range line {
		d.Line = append(d.Line, Waiting{w.ID, w.Kind, w.Queue, w.Waits})
	}
	entry, ok, err := c.store.LimitEntry(ctx, name, false)
	switch {
	case ok:
		d.Entry, d.Limit = &entry, entry.N
	case own > 0:
	case len(holders) > 0:
		d.Limit = holders[0].N
	case len(line) > 0:
		d.Limit = line[0].N
	}
	d.Redis = c.agreement(ctx, name, holders)
	return d, err
}

func (c *Client) holder(ctx context.Context, h pgstore.HolderRow) Holder {
	out := Holder{
		Slot: h.Slot, ID: h.ID, Kept: h.Kept, Left: h.Left, Kind: h.Kind, Queue: h.Queue, Session: h.Session, Host: h.Host, PID: h.PID,
	}
	if h.State == job.LiveRunning {
		out.Since, out.Lease, out.Timeout = h.Since, h.Lease, h.Timeout
		if p, ok, err := c.Progress(ctx, h.ID); err == nil && ok { // what is not known is left out
			out.Progress = &p
		}
	}
	return out
}

// addTook fills in how long holders took lately, by jobs before an id.
func (c *Client) addTook(ctx context.Context, d *KeyDetail, before job.ID) (err error) {
	d.Took, d.Of, err = c.store.KeyTook(ctx, d.Name, before)
	return err
}

// agreement compares the holders with those that Redis knows.
func (c *Client) agreement(ctx context.Context, name string, holders []pgstore.HolderRow) Agreement {
	if !c.bus.Enabled() {
		return RedisOff
	}
	members, err := c.bus.Holders(ctx, name)
	if err != nil {
		return RedisAway
	}
	same := len(members) == len(holders) || len(holders) == shownHolders
	for _, h := range holders {
		same = same && slices.ContainsFunc(members, func(m coord.Holder) bool { return m.ID == member(h.ID) })
	}
	if same {
		return RedisAgrees
	}
	return RedisDiffers
}

// rate returns a rate as it counts for a job that has k.
func (c *Client) rate(ctx context.Context, k job.Key) (RateDetail, error) {
	d := RateDetail{Name: k.Name(), N: k.N(), Per: k.Per(), Weight: k.Cost()}
	entry, ok, err := c.store.LimitEntry(ctx, k.Name(), true)
	if err != nil {
		return d, err
	}
	if ok {
		d.Entry, d.N, d.Per = &entry, entry.N, entry.Per
	}
	d.Held, err = c.store.RateHold(ctx, k.Name())
	return d, err
}
