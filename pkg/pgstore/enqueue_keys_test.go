package pgstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// oddKeys are names that the way to a column might change.
var oddKeys = []string{
	"account:42", "a\nb", `a"b`, `a\b`, "{a,b}", "NULL", "null", " a ", "a,b", "é", "e\u0301", "😀", "'", "*", "}", "\t", "\x01", `\n`, strings.Repeat("é", 127),
}

func TestKeysComeToTheRowsAsTheyAre(t *testing.T) {
	t.Parallel()
	b := open(t)
	ways := map[string]func(j pgstore.NewJob){
		"fresh": func(j pgstore.NewJob) { b.send(j) },
		"known": func(j pgstore.NewJob) { j.Known = true; b.send(j) },
		"text":  func(j pgstore.NewJob) { b.throughSQL([]pgstore.NewJob{j}) },
	}
	for way, send := range ways {
		for _, name := range oddKeys {
			keys := []job.Key{job.Limit(name, 3), job.Mutex("z"), job.Rate(name, 100, 1500*time.Millisecond).Weight(7)}
			j := b.newJob(func(j *pgstore.NewJob) { j.Keys, j.Mode = keys, job.Spawned })
			send(j)
			want := job.JoinKeys(job.SplitKeys(keys))
			if got := b.job(j.ID).Keys; !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", way, got, want)
			}
			text, err := pgstore.ScanList(b.listed(b.store.ListSQL("", "", 1)))
			if err != nil || len(text) != 1 || !slices.Equal(text[0].Keys, want) || text[0].Mode != job.Spawned {
				t.Errorf("%s: listed %v, %v, want %v", way, text, err, want)
			}
			live := b.row("SELECT (l.keys, l.key_limits, l.rates) IS NOT DISTINCT FROM (j.keys, j.key_limits, j.rates), l.flags, l.line_at = l.ready_at FROM weir.live AS l JOIN weir.jobs AS j USING (id) WHERE id = $1", j.ID.UUID())
			if live != "t,1,t" {
				t.Errorf("%s: the live row is %s, want the log's keys, flag 1 and its place in line", way, live)
			}
		}
	}
}

func (b *bench) send(j pgstore.NewJob) {
	b.t.Helper()
	if got, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{j}); err != nil || got.Inserted != 1 {
		b.t.Fatalf("enqueue: %+v, %v", got, err)
	}
}

func (b *bench) listed(query string, args []any) (text string) {
	b.t.Helper()
	b.must(b.pool.QueryRow(b.ctx, query, args...).Scan(&text))
	return text
}

func TestOneCallTakesJobsWithAndWithoutKeys(t *testing.T) {
	t.Parallel()
	b := open(t)
	var jobs []pgstore.NewJob
	keys := [][]job.Key{nil, {job.Mutex("a")}, {}, {job.Rate("r", 1, time.Second)}, {job.Limit("b", 2), job.Mutex("a")}}
	for i := range keys {
		jobs = append(jobs, b.newJob(func(j *pgstore.NewJob) { j.Keys, j.Delay = keys[i], time.Duration(i)*time.Hour }))
	}
	got, err := b.store.Enqueue(b.ctx, jobs)
	if err != nil || got.Inserted != len(jobs) || got.LeastReady.IsZero() {
		t.Fatalf("got %+v, %v", got, err)
	}
	want := []string{"0,NULL,NULL,NULL,NULL", "1,{a},NULL,NULL,t", "0,NULL,NULL,NULL,NULL", "1,NULL,NULL,{\"1/1000/1 r\"},NULL", "1,{a,b},{1,2},NULL,t"}
	if rows := b.rows("SELECT flags, keys, key_limits, rates, line_at = ready_at FROM weir.live ORDER BY id"); !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	again, err := b.store.Enqueue(b.ctx, []pgstore.NewJob{jobs[1]})
	if err != nil || again.Inserted != 0 || !again.Duplicates[jobs[1].ID] {
		t.Errorf("a keyed job again: got %+v, %v", again, err)
	}
}

func TestJobsAreFoundByTheirKeys(t *testing.T) {
	t.Parallel()
	b := open(t)
	lock := b.enqueue(1, func(j *pgstore.NewJob) { j.Keys = []job.Key{job.Mutex("other"), job.Limit("k ey", 5)} })[0]
	rate := b.enqueue(1, func(j *pgstore.NewJob) { j.Keys = []job.Key{job.Rate("k ey", 5, time.Second)} })[0]
	b.enqueue(1, func(j *pgstore.NewJob) {
		j.Keys = []job.Key{job.Mutex("ey"), job.Mutex("k"), job.Rate("k e", 5, time.Second)}
	})
	b.enqueue(1)
	find := func(want ...job.ID) {
		t.Helper()
		rows, err := b.store.Jobs(b.ctx, pgstore.Page{Key: "k ey", Limit: 10})
		var got []job.ID
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	find(rate, lock)
	if _, _, err := b.store.Cancel(b.ctx, []job.ID{lock}, "test"); err != nil {
		t.Fatal(err)
	}
	find(rate, lock)
	if got := b.job(lock).Keys; len(got) != 2 || got[0] != job.Limit("k ey", 5) {
		t.Errorf("a dead job has %v", got)
	}
	if _, err := b.store.Revive(b.ctx, []job.ID{lock}); err != nil {
		t.Fatal(err)
	}
	if got := b.row("SELECT flags, keys, key_limits, line_at = ready_at FROM weir.live WHERE id = $1", lock.UUID()); got != `1,{"k ey",other},{5,1},t` {
		t.Errorf("a revived job has %s", got)
	}
}

func TestAJobFromSQLHasItsKeysSortedAndInTheStoredForm(t *testing.T) {
	t.Parallel()
	b := open(t)
	for args, want := range map[string][]job.Key{
		"'k', keys => '{b,a}'":                                                             {job.Mutex("a"), job.Mutex("b")},
		"'k', keys => '{é,Z,b}', key_limits => '{3,2,1}'":                                  {job.Limit("Z", 2), job.Mutex("b"), job.Limit("é", 3)},
		"'k', keys => '{b}', key_limits => '{1}'":                                          {job.Mutex("b")},
		"'k', keys => '{}', key_limits => '{}', rates => '{}'":                             nil,
		"'k', key_limits => '{}'":                                                          nil,
		"'k', rates => '{100/1s stripe}'":                                                  {job.Rate("stripe", 100, time.Second)},
		`'k', rates => ARRAY['5/1m30s/5 z', '1/1ms ' || E'a b\n', '100000/24h/100000 é']`:  {job.Rate("a b\n", 1, time.Millisecond), job.Rate("z", 5, 90*time.Second).Weight(5), job.Rate("é", 100_000, 24*time.Hour).Weight(100_000)},
		"'k', rates => '{1/0.5s a}', keys => '{a}'":                                        {job.Mutex("a"), job.Rate("a", 1, 500*time.Millisecond)},
		"'k', keys => ARRAY[repeat('é', 127), 'weir', 'Weir.a'], rates => '{1/1s 1/1s x}'": {job.Mutex("Weir.a"), job.Mutex("weir"), job.Mutex(strings.Repeat("é", 127)), job.Rate("1/1s x", 1, time.Second)},
	} {
		id, err := b.produce(args)
		if err != nil {
			t.Errorf("enqueue(%s): %v", args, err)
			continue
		}
		if got := b.job(id).Keys; !slices.Equal(got, want) {
			t.Errorf("enqueue(%s): got %v, want %v", args, got, want)
		}
	}
	if got := b.row("SELECT count(*) FROM weir.live WHERE (flags & 1 = 1) <> (keys IS NOT NULL OR rates IS NOT NULL) OR key_limits IS NOT NULL AND keys IS NULL OR (keys IS NULL) <> (line_at IS NULL)"); got != "0" {
		t.Errorf("%s rows whose flag, keys, numbers and place do not agree", got)
	}
}

func TestSQLIsToldWhichKeyIsWrong(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, c := range []struct{ argument, args string }{
		{"keys", "keys => '{a,b,c,d,e,f,g,h,i}'"}, {"keys", "keys => '{a,b,c,d,e,f,g,h}', rates => '{1/1s a}'"}, {"keys", `keys => '{""}'`},
		{"keys", "keys => '{NULL}'"}, {"keys", "keys => ARRAY[repeat('k', 256)]"}, {"keys", "keys => '{a,b,a}'"}, {"keys", "keys => ARRAY['weir' || '.x']"},
		{"key_limits", "key_limits => '{1}'"}, {"key_limits", "keys => '{a,b}', key_limits => '{1}'"}, {"key_limits", "keys => '{a}', key_limits => '{0}'"},
		{"key_limits", "keys => '{a}', key_limits => '{100001}'"}, {"key_limits", "keys => '{a}', key_limits => '{NULL}'"},
		{"rates", "rates => '{a}'"}, {"rates", "rates => '{NULL}'"}, {"rates", "rates => '{100 a}'"}, {"rates", "rates => '{100/1s}'"}, {"rates", `rates => '{"100/1s "}'`},
		{"rates", "rates => '{0/1s a}'"}, {"rates", "rates => '{-1/1s a}'"}, {"rates", "rates => '{1/1 a}'"}, {"rates", "rates => '{1/0s a}'"}, {"rates", "rates => '{1/25h a}'"},
		{"rates", "rates => '{1/1500us a}'"}, {"rates", "rates => '{100001/1s a}'"}, {"rates", "rates => '{5/1s/0 a}'"}, {"rates", "rates => '{5/1s/6 a}'"},
		{"rates", "rates => '{1/1s a,2/1s a}'"}, {"rates", "rates => ARRAY['1/1s ' || repeat('k', 256)]"}, {"rates", "rates => ARRAY['1/1s weir' || '.x']"},
		{"rates", "rates => '{1/99999999999999999999s a}'"}, {"rates", "rates => ARRAY['1/1s ' || repeat('k', 1000)]"},
	} {
		_, err := b.produce("'k', " + c.args)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || !strings.HasPrefix(pg.Message, "enqueue: "+c.argument+": want ") {
			t.Errorf("enqueue(%s): got %v, want 22023 about %s", c.args, err, c.argument)
		}
	}
	if n := b.row("SELECT count(*) FROM weir.jobs"); n != "0" {
		t.Errorf("%s jobs were stored", n)
	}
}

func TestAThousandKeyedJobsGoInOneStatement(t *testing.T) {
	t.Parallel()
	b := open(t)
	n := 0
	ids := b.enqueue(1000, func(j *pgstore.NewJob) {
		j.Keys = []job.Key{job.Mutex(fmt.Sprint("account:", n)), job.Rate("all", 10, time.Second)}
		n++
	})
	for i := 0; i < len(ids); i += 333 {
		if got := b.job(ids[i]).Keys; got[0].Name() != fmt.Sprint("account:", i) {
			t.Errorf("job %d has %v", i, got)
		}
	}
}
