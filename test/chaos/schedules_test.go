//go:build unix

package chaos_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
)

// P9. The sweeper is killed every two seconds while a schedule has a tick each second: none is missing, none comes twice, and
// each job runs. Short: 12 s and a sweeper that dies each second; long: a minute. Two sweepers at a time, so that they also meet.
func TestSweepersThatAreKilledMissNoTickAndDoubleNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker("worker", slots(20))
	declared := func(name string, m client.Misfire) client.Schedule {
		return client.Schedule{
			Name: name, Every: time.Second, FirstIn: time.Second, Args: work{}, Misfire: m, MisfireCap: 1000, Options: job.Options{MaxAttempts: 1},
		}
	}
	cron := declared("cron", client.MisfireAll)
	cron.Cron, cron.Every, cron.FirstIn = "* * * * * *", 0, 0
	list := []client.Schedule{declared("every", client.MisfireAll), cron, declared("once", client.MisfireOnce)}
	if err := r.client.SyncSchedules(t.Context(), "test", list, client.SyncOptions{Version: 1}); err != nil {
		t.Fatal(err)
	}
	first := map[string]time.Time{}
	for _, s := range list {
		first[s.Name] = r.schedule(s.Name).NextAt
	}
	kills, n := pick(time.Second, 2*time.Second), 0
	var running [2]*process
	for end := time.Now().Add(pick(12*time.Second, time.Minute)); time.Now().Before(end); n++ {
		if p := running[n%2]; p != nil {
			p.kill()
		}
		running[n%2] = r.start(spec{Role: "sweeper", Name: fmt.Sprintf("sweeper%d", n)})
		pause(kills)
		if err := r.client.SyncSchedules(t.Context(), "test", list, client.SyncOptions{Version: 1}); err != nil { // as each start of a program does
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, 20*time.Second+crowd(), func() bool { s := r.schedule("every"); return s.NextAt.After(s.Now) }, "what was missed is not made up for")
	if err := r.client.SyncSchedules(t.Context(), "test", nil, client.SyncOptions{Version: 1}); err != nil {
		t.Fatal(err)
	}
	for name, from := range first {
		ticks := r.ticks(name)
		for i, at := range ticks {
			if name != "once" && !at.Equal(from.Add(time.Duration(i)*time.Second)) {
				t.Fatalf("%s: tick %d is %v, want %v: one is missing or came twice", name, i, at, from.Add(time.Duration(i)*time.Second))
			}
			if i > 0 && !ticks[i-1].Before(at) {
				t.Fatalf("%s: %v came twice", name, at)
			}
		}
		t.Logf("%s: %d ticks, %d sweepers killed", name, len(ticks), n-1)
		if least := int(time.Since(from)/time.Second) - 25; name != "once" && len(ticks) < max(least, 8) {
			t.Errorf("%s: only %d ticks", name, len(ticks))
		}
	}
	r.awaitEmpty(20 * time.Second)
	if done, jobs := r.count("SELECT count(*) FROM weir.outcomes"), r.count("SELECT count(*) FROM weir.jobs"); done != jobs {
		t.Errorf("%d of %d jobs are done", done, jobs)
	}
}

func (r *rig) schedule(name string) client.ScheduleInfo {
	r.t.Helper()
	s, err := r.client.Schedule(r.t.Context(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// ticks returns the ticks of a schedule that became jobs, one for each job, in order.
func (r *rig) ticks(name string) (out []time.Time) {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), r.in(`SELECT (metadata ->> 'weir_tick')::timestamptz FROM weir.jobs WHERE metadata ->> 'weir_schedule' = $1 ORDER BY 1`), name)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, at)
	}
	return out
}
