package pgstore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
	"pgregory.net/rapid"
)

// payloads are JSON texts whose bytes a decoder would change.
var payloads = []string{
	`9007199254740993`, `{"n":12345678901234567890.1234567890e-10}`, `{"b":1,"a":2,"b":3}`, " {\n\t\"a\" : [ 1 , 2 ] }\n ",
	`"\u0000"`, `"\ud800 lone"`, `"é \u00e9 😀 \ud83d\ude00"`, `{"<&>":"\/ \u2028"}`, `null`, `""`, `-0`, `1E400`,
	`"` + "\u2028\u2029\u007f" + `"`, strings.Repeat("[", 500) + strings.Repeat("]", 500),
}

func TestPayloadsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	for _, known := range []bool{false, true} {
		want := make(map[job.ID]string)
		for _, p := range payloads {
			want[b.enqueue(1, func(j *pgstore.NewJob) { j.Payload, j.Known = []byte(p), known })[0]] = p
			want[b.enqueueText(p)] = p
		}
		got := b.claim(s, 100)
		if len(got) != len(want) {
			t.Fatalf("claimed %d of %d", len(got), len(want))
		}
		for _, r := range got {
			if string(r.Payload) != want[r.ID] {
				t.Errorf("claim: got %q, want %q", r.Payload, want[r.ID])
			}
			if kept := b.job(r.ID).Payload; string(kept) != want[r.ID] {
				t.Errorf("job: got %q, want %q", kept, want[r.ID])
			}
		}
		done := completionsOf(got...)
		for i := range done {
			done[i].Result = []byte(want[done[i].ID])
		}
		if ok, err := b.store.Finish(b.ctx, s, done); err != nil || len(ok) != len(got) {
			t.Fatalf("finish: %d, %v", len(ok), err)
		}
		for id, p := range want {
			if r := b.job(id).Result; string(r) != p {
				t.Errorf("result: got %q, want %q", r, p)
			}
		}
	}
}

// enqueueText enqueues one job as a driver does that knows text alone.
func (b *bench) enqueueText(payload string) job.ID {
	b.t.Helper()
	j := b.newJob(func(j *pgstore.NewJob) { j.Payload = []byte(payload) })
	b.throughSQL([]pgstore.NewJob{j})
	return j.ID
}

// throughSQL enqueues through database/sql with the simple protocol: all arguments are text.
func (b *bench) throughSQL(jobs []pgstore.NewJob) pgstore.Enqueued {
	b.t.Helper()
	cfg := b.pool.Config().ConnConfig.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	query, arg, err := b.store.EnqueueSQL(jobs)
	b.must(err)
	var (
		now, inserted int64
		least         sql.Null[int64]
		duplicates    sql.Null[string]
	)
	b.must(db.QueryRowContext(b.ctx, query, arg).Scan(&now, &inserted, &least, &duplicates))
	got, err := pgstore.ScanEnqueued(now, inserted, pointer(least), pointer(duplicates))
	b.must(err)
	return got
}

func pointer[T any](v sql.Null[T]) *T {
	if !v.Valid {
		return nil
	}
	return &v.V
}

// drawJob makes a job with any of its fields set.
func (b *bench) drawJob(rt *rapid.T) pgstore.NewJob {
	j := b.newJob()
	j.Payload = []byte(rapid.SampledFrom(payloads).Draw(rt, "payload"))
	j.Priority = rapid.IntRange(1, 9).Draw(rt, "priority")
	j.MaxAttempts = rapid.IntRange(1, 10_000).Draw(rt, "max attempts")
	switch rapid.IntRange(0, 2).Draw(rt, "when") {
	case 1:
		j.Delay = time.Duration(rapid.Int64Range(0, 1e9).Draw(rt, "delay")) * time.Second
	case 2:
		j.ScheduledAt = time.Unix(rapid.Int64Range(-1e10, 1e11).Draw(rt, "at"), rapid.Int64Range(0, 999_999_999).Draw(rt, "ns"))
	}
	j.ExpiresIn = rapid.SampledFrom([]time.Duration{0, 1, time.Hour}).Draw(rt, "expires in")
	j.Timeout = rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Hour, job.NoTimeout}).Draw(rt, "timeout")
	j.Backoff = rapid.SampledFrom([]string{"", "poly", "exp 1s 1h0m0s"}).Draw(rt, "backoff")
	j.Tags = rapid.SliceOfN(rapid.StringMatching(`[a-z<>&"'\\, üß😀{}]{1,8}`), 0, 3).Draw(rt, "tags")
	j.Metadata = rapid.MapOfN(rapid.StringMatching(`[a-z"\\é]{1,5}`), rapid.StringMatching(`[a-z"\\<>é😀]{0,8}`), 0, 3).Draw(rt, "metadata")
	j.Trace = rapid.SampledFrom([]string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}).Draw(rt, "trace")
	if rapid.Bool().Draw(rt, "child") {
		j.Parent = b.ids.New()
	}
	return j
}

// logged shows what the tables say of a job. Times that follow from that of its enqueueing are relative to it, in seconds.
func (b *bench) logged(id job.ID, absolute bool) string {
	b.t.Helper()
	return b.row(`SELECT j.kind, j.queue, j.payload::text, j.priority, j.max_attempts, j.timeout_ms, j.backoff, j.tags::text, j.metadata::text,
		j.trace, j.parent_id, round(extract(epoch FROM l.expires_at - l.ready_at)),
		round(extract(epoch FROM j.expires_at - l.ready_at)), j.scheduled_at IS NULL, CASE WHEN $2 THEN j.scheduled_at::text
		ELSE round(extract(epoch FROM l.ready_at - j.enqueued_at))::text END, l.kind, l.queue, l.priority,
		l.max_attempts, l.size, l.state, l.attempt, l.fence, l.crashes, l.flags, l.session, l.claimed_at
		FROM weir.jobs AS j JOIN weir.live AS l ON l.id = j.id WHERE j.id = $1`, id.UUID(), absolute)
}

func TestTextDriversEnqueueTheSameRows(t *testing.T) {
	t.Parallel()
	b := open(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := *b
		c.t = rt
		j := c.drawJob(rt)
		for i, other := range []string{"fresh", "known", "text"} {
			k := j
			k.ID = c.ids.New()
			if i == 0 {
				j.ID = k.ID
			}
			k.Known = other == "known"
			if other == "text" {
				c.throughSQL([]pgstore.NewJob{k})
			} else if _, err := c.store.Enqueue(c.ctx, []pgstore.NewJob{k}); err != nil {
				rt.Fatal(err)
			}
			if got, want := c.logged(k.ID, !j.ScheduledAt.IsZero()), c.logged(j.ID, !j.ScheduledAt.IsZero()); got != want {
				rt.Fatalf("%s: got\n%s, want\n%s", other, got, want)
			}
		}
	})
}

func TestATextDriverLearnsWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	b := open(t)
	jobs := []pgstore.NewJob{b.newJob(), b.newJob(func(j *pgstore.NewJob) { j.Delay = time.Hour })}
	first := b.throughSQL(jobs[1:])
	if first.Inserted != 1 || len(first.Duplicates) != 0 || first.LeastReady.Sub(first.Now) < 59*time.Minute {
		t.Errorf("first: got %+v", first)
	}
	again := b.throughSQL(jobs)
	if again.Inserted != 1 || !again.Duplicates[jobs[1].ID] || len(again.Duplicates) != 1 || again.LeastReady.Sub(again.Now) > time.Second {
		t.Errorf("again: got %+v", again)
	}
}

func TestTheLargestPayloadsAreClaimedInOrderAndNoneIsLost(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.session()
	payload := []byte(`"` + strings.Repeat("x", job.MaxPayloadBytes-2) + `"`)
	var want, got []job.ID
	for range 10 {
		want = append(want, b.enqueue(10, func(j *pgstore.NewJob) { j.Payload = payload })...)
	}
	claims := 0
	for len(got) < len(want) {
		rows := b.claim(s, 100)
		if len(rows) == 0 {
			t.Fatalf("nothing more after %d", len(got))
		}
		if n := len(rows) * len(payload); n > pgstore.MaxClaimBytes {
			t.Errorf("a claim of %d bytes", n)
		}
		claims++
		for _, r := range rows {
			got = append(got, r.ID)
			if !bytes.Equal(r.Payload, payload) {
				t.Fatalf("a payload of %d bytes was changed", len(r.Payload))
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Error("the order is not that of the enqueue")
	}
	if claims != 7 { // 16 MiB each
		t.Errorf("%d claims, want 7", claims)
	}
}

func TestAnIDFromAClockFarAheadStoresNothing(t *testing.T) {
	t.Parallel()
	b := open(t)
	for ahead, refused := range map[time.Duration]bool{9 * time.Minute: false, 11 * time.Minute: true, 50 * 365 * 24 * time.Hour: true} {
		var ids job.IDs
		ids.SetOffset(ahead)
		good, bad := b.newJob(), b.newJob()
		bad.ID = ids.New()
		_, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{good, bad})
		if errors.Is(err, pgstore.ErrClockAhead) != refused || err != nil != refused {
			t.Errorf("%s ahead: got %v", ahead, err)
		}
		if stored := b.state(good.ID) != ""; stored == refused {
			t.Errorf("%s ahead: its neighbour stored %v", ahead, stored)
		}
	}
	if n := b.row("SELECT count(*) FROM weir.jobs_default"); n != "0" {
		t.Errorf("%s rows in the default partition", n)
	}
}

func TestSQLShowsAndReadsULIDsAsGoDoes(t *testing.T) {
	t.Parallel()
	b := open(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := *b
		c.t = rt
		var id job.ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))
		want := id.String()
		if got := c.row("SELECT weir.ulid($1::uuid)", id.UUID()); got != want {
			rt.Fatalf("ulid(%s): got %s, want %s", id.UUID(), got, want)
		}
		for _, text := range []string{want, strings.ToLower(want)} {
			if got := c.row("SELECT weir.ulid($1::text)", text); got != id.UUID() {
				rt.Fatalf("ulid(%s): got %s, want %s", text, got, id.UUID())
			}
		}
	})
	for _, text := range []string{"", "0", "01JDX3", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "0123456789ABCDEFGHJKMNPQRU", "0123456789ABCDEFGHJKMNPQRSX", "0123456789ABCDEFGHJKMNPQ-S"} {
		if _, err := b.pool.Exec(b.ctx, b.text("SELECT weir.ulid($1::text)"), text); err == nil {
			t.Errorf("ulid(%q) is read", text)
		}
	}
}

func TestIDsOfTheDatabaseCarryItsTime(t *testing.T) {
	t.Parallel()
	b := open(t)
	seen := make(map[string]bool)
	for _, r := range b.rows("SELECT weir.new_id(), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM generate_series(1, 1000)") {
		var id job.ID
		text, ms, _ := strings.Cut(r, ",")
		if err := id.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var want int64
		if _, err := fmt.Sscan(ms, &want); err != nil {
			t.Fatal(err)
		}
		if d := want - id.Time().UnixMilli(); d < 0 || d > 100 || seen[text] {
			t.Errorf("%s is %d ms off, seen before %v", text, d, seen[text])
		}
		seen[text] = true
	}
}
