package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/weirq/weir/internal/cadence"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// Misfire says what becomes of ticks that no sweeper could fire in time.
type Misfire string

// The policies.
const (
	// MisfireOnce fires the latest of the ticks that are due, however late, and drops those before it. It is the default.
	MisfireOnce Misfire = "once"
	// MisfireSkip fires the latest only if it is at most a minute late, and drops the others.
	MisfireSkip Misfire = "skip"
	// MisfireAll fires each of them, oldest first, at most the latest MisfireCap.
	MisfireAll Misfire = "all"
)

// The limits of a schedule.
const (
	DefaultMisfireCap = 100
	MaxMisfireCap     = 1000
	MaxSchedules      = 10_000 // of one owner
)

// What the metadata of a scheduled job says beside what the schedule's own Options do.
const (
	MetadataSchedule = "weir_schedule" // the schedule's name
	MetadataTick     = "weir_tick"     // the tick in RFC 3339, in UTC; "by hand" of one that RunSchedule added
)

// Schedule is a job that is enqueued again and again by the sweeper: each tick once, whatever the number of sweepers.
type Schedule struct {
	// Name identifies the schedule in its namespace, whoever owns it: 1 to 128 bytes of UTF-8 without control characters.
	Name string
	// Cron says when the job is due: five fields (minute, hour, day of the month, month, day of the week), six (with the second
	// first), or @yearly, @monthly, @weekly, @daily, @hourly. At most 256 bytes. Not together with Every.
	//
	// A local time that a change of the clock leaves out is due at the change; one that comes twice is due the first time, unless the
	// second, minute or hour begins with *: such an interval goes on in real time.
	Cron string
	// Zone is the IANA time zone of Cron, such as Europe/Berlin. Zero means UTC. Sweepers must know it too: programs that are
	// deployed without zone files import time/tzdata; those of package run do.
	Zone string
	// Every is the interval between ticks, on the database clock: 1s to 3660 days, in whole milliseconds.
	Every time.Duration
	// FirstIn is how long after the first sync that knows the schedule, or its new rhythm, its first tick is: up to 3660 days. Zero
	// means Every. Only with Every.
	FirstIn time.Duration
	// Args and Options are the job, as for Enqueue. Options must not say an ID or ScheduledAt; of metadata at most 30 entries. A Delay
	// counts from the tick's firing.
	Args    job.Args
	Options job.Options
	// Misfire says what becomes of ticks that were missed. Zero means MisfireOnce.
	Misfire Misfire
	// MisfireCap is how many missed ticks MisfireAll makes up for, 1 to 1000: the latest. Zero means 100.
	MisfireCap int
	// Disabled keeps the schedule without firing it. EnableSchedule and DisableSchedule override it until it changes.
	Disabled bool
}

// SyncOptions say more about a sync.
type SyncOptions struct {
	// Version orders the releases of an owner: the number of a build, the time of a commit. A sync with a lesser version than the
	// owner's last changes nothing, so that the old processes of a rolling deployment do not bring their schedules back; of equal
	// ones the last wins. Zero means when the source of this program was committed, in seconds since 1970, as the go command noted
	// it in the binary; where it did not (go run, go test, a build outside a repository) it is 0.
	Version int64
}

// SyncSchedules makes list the schedules of owner, a name that says who declares them: a service, a team. Call it at the start of
// each process. What is not in list any more is removed; schedules of other owners are never touched, and to name one of them is a
// *job.FieldError. A schedule that did not change keeps its next tick; one whose Cron, Zone or Every changed, or that is enabled
// anew, gets a new one, counted from now on the database clock.
//
// The newest version of an owner wins; see SyncOptions.Version. After a rollback to an older release, `weir schedules forget` or
// ForgetSchedules lets it win again.
//
// All of it happens or nothing. A *job.FieldError has the index of the schedule and comes before any SQL, but for a name that
// another owner has.
func (c *Client) SyncSchedules(ctx context.Context, owner string, list []Schedule, options ...SyncOptions) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	version, err := versionOf(options)
	if err != nil {
		return err
	}
	if err := validateOwner(owner); err != nil {
		return err
	}
	stored, cadences, err := c.schedules(list)
	if err != nil {
		return err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("sync schedules of %s: %w", owner, scrub(err))
	}
	for i := range stored {
		stored[i].NextAt = cadences[i].First(now, list[i].FirstIn)
	}
	out, err := c.store.SyncSchedules(ctx, owner, version, stored)
	if err != nil {
		return ownedError(list, err)
	}
	c.tellSynced(owner, version, out)
	return nil
}

func (c *Client) tellSynced(owner string, version int64, out pgstore.Synced) {
	switch {
	case out.Older:
		c.cfg.Logger.Info("schedules stay: a newer version of their owner has declared them", "owner", owner, "version", version)
	case len(out.Added)+len(out.Changed)+len(out.Removed) > 0:
		c.cfg.Logger.Info("schedules changed", "owner", owner, "version", version, "added", out.Added, "changed", out.Changed, "removed", out.Removed)
	}
}

// ownedError turns the name of a schedule that another owner has into a *job.FieldError.
func ownedError(list []Schedule, err error) error {
	var owned *pgstore.OwnedError
	if !errors.As(err, &owned) {
		return scrub(err)
	}
	for i, s := range list {
		if s.Name == owned.Name {
			return &job.FieldError{Field: "Name", Got: fmt.Sprintf("%q, which owner %q has", s.Name, owned.Owner), Limit: "a name of one's own", Index: i}
		}
	}
	return err
}

// schedules checks a list and makes rows of it.
func (c *Client) schedules(list []Schedule) ([]pgstore.NewSchedule, []*cadence.Cadence, error) {
	if len(list) > MaxSchedules {
		return nil, nil, &job.FieldError{Field: "schedules", Got: strconv.Itoa(len(list)), Limit: fmt.Sprintf("at most %d of one owner", MaxSchedules)}
	}
	stored, cadences := make([]pgstore.NewSchedule, len(list)), make([]*cadence.Cadence, len(list))
	seen := map[string]int{}
	for i := range list {
		s := &list[i]
		var err error
		if stored[i], cadences[i], err = c.schedule(s); err != nil {
			return nil, nil, at(i, err)
		}
		if first, ok := seen[s.Name]; ok {
			return nil, nil, &job.FieldError{Field: "Name", Got: fmt.Sprintf("%q again, as of schedule %d", s.Name, first), Limit: "a name of its own", Index: i}
		}
		seen[s.Name] = i
	}
	return stored, cadences, nil
}

func (c *Client) schedule(s *Schedule) (pgstore.NewSchedule, *cadence.Cadence, error) {
	fail := func(err error) (pgstore.NewSchedule, *cadence.Cadence, error) { return pgstore.NewSchedule{}, nil, err }
	if err := job.ValidateQueue(s.Name); err != nil { // the same limits
		return fail(renamed(err, "Name"))
	}
	rhythm, cad, err := s.rhythm()
	if err != nil {
		return fail(err)
	}
	if err := s.checkOptions(); err != nil {
		return fail(err)
	}
	// Its own context: a schedule has neither parent nor trace.
	d, err := c.draft(context.Background(), s.Args, s.Options)
	if err != nil {
		return fail(err)
	}
	return pgstore.NewSchedule{Name: s.Name, Rhythm: rhythm, Enabled: !s.Disabled, Job: d.job}, cad, nil
}

// rhythm checks when a schedule is due and what becomes of missed ticks.
func (s *Schedule) rhythm() (pgstore.Rhythm, *cadence.Cadence, error) {
	none := pgstore.Rhythm{}
	cad, err := cadence.New(s.Every, s.Cron, s.Zone)
	if err != nil {
		var fault *cadence.Error
		if errors.As(err, &fault) {
			err = &job.FieldError{Field: fault.Field, Got: fault.Got, Limit: fault.Limit}
		}
		return none, nil, err
	}
	if s.FirstIn < 0 || s.FirstIn > cadence.MaxEvery || s.FirstIn != 0 && s.Every == 0 {
		return none, nil, &job.FieldError{Field: "FirstIn", Got: s.FirstIn.String(), Limit: "0 to 3660 days, and only with Every"}
	}
	r := pgstore.Rhythm{Cron: s.Cron, Zone: s.Zone, Every: s.Every, Misfire: string(s.Misfire), MisfireCap: s.MisfireCap}
	switch s.Misfire {
	case "":
		r.Misfire = string(MisfireOnce)
	case MisfireOnce, MisfireSkip, MisfireAll:
	default:
		return none, nil, &job.FieldError{Field: "Misfire", Got: fmt.Sprintf("%.64q", string(s.Misfire)), Limit: "once, skip or all"}
	}
	if r.MisfireCap == 0 {
		r.MisfireCap = DefaultMisfireCap
	}
	if r.MisfireCap < 1 || r.MisfireCap > MaxMisfireCap {
		return none, nil, &job.FieldError{Field: "MisfireCap", Got: strconv.Itoa(s.MisfireCap), Limit: fmt.Sprintf("1 to %d", MaxMisfireCap)}
	}
	return r, cad, nil
}

// checkOptions refuses what can be said of one job and not of many.
func (s *Schedule) checkOptions() error {
	switch o := job.OptionsOf(s.Args).Merge(s.Options); {
	case !o.ID.IsZero():
		return &job.FieldError{Field: "ID", Got: o.ID.String(), Limit: "none: each tick is a new job"}
	case !o.ScheduledAt.IsZero():
		return &job.FieldError{Field: "ScheduledAt", Got: o.ScheduledAt.UTC().Format(time.RFC3339), Limit: "none: the ticks say when"}
	case len(o.Metadata) > job.MaxMetadata-2:
		return &job.FieldError{Field: "Metadata", Got: strconv.Itoa(len(o.Metadata)), Limit: fmt.Sprintf("%d entries in a schedule", job.MaxMetadata-2)}
	}
	return nil
}

// versionOf returns what the last of options says, else when this program's source was committed.
func versionOf(options []SyncOptions) (int64, error) {
	version := int64(0)
	for _, o := range options {
		if o.Version != 0 {
			version = o.Version
		}
	}
	if version < 0 || version == math.MaxInt64 { // the largest is beyond reach of a next one
		return 0, &job.FieldError{Field: "Version", Got: strconv.FormatInt(version, 10), Limit: "0 or more"}
	}
	if version == 0 {
		version = built()
	}
	return version, nil
}

var built = sync.OnceValue(func() int64 {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return 0
	}
	return commitTime(info.Settings)
})

// commitTime returns when the source was committed, in seconds since 1970; 0 if that is not known.
func commitTime(settings []debug.BuildSetting) int64 {
	for _, s := range settings {
		if s.Key != "vcs.time" {
			continue
		}
		if at, err := time.Parse(time.RFC3339, s.Value); err == nil && at.Unix() > 0 {
			return at.Unix()
		}
	}
	return 0
}

func validateOwner(owner string) error { return renamed(job.ValidateQueue(owner), "owner") }

// renamed puts another field's name into a *job.FieldError.
func renamed(err error, field string) error {
	var fault *job.FieldError
	if errors.As(err, &fault) {
		fault.Field = field
	}
	return err
}
