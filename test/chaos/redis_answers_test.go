//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/pkg/job"
)

// answers are faults in which Redis is there and answers with an error. The code is what it must have answered to somebody,
// or the test proves nothing.
var answers = map[string]fault{
	"LOADING": {name: "Redis is restarted with a data set that takes 3 s to read", prepare: ballast, begin: func(t *trial) {
		rng := t.dice("loading")
		for t.wait(between(rng, 300*time.Millisecond, 700*time.Millisecond)) {
			if err := t.dump(); err != nil {
				t.t.Errorf("dump Redis: %v", err)
			}
			if err := t.recall(); err != nil {
				t.t.Errorf("restart Redis: %v", err)
			}
			t.awaitRedis()
		}
	}},
	"BUSY": {name: "a script runs for 3 s, again and again", begin: func(t *trial) {
		ctx := context.Background()
		if err := t.rdb.ConfigSet(ctx, "lua-time-limit", "100").Err(); err != nil {
			t.t.Errorf("set the limit of scripts: %v", err)
		}
		for t.wait(500 * time.Millisecond) {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", t.redis.Port())) // a client would try it again
			if err == nil {
				_, err = conn.Write([]byte("EVAL \"while true do end\" 0\r\n"))
			}
			if err != nil {
				t.t.Errorf("run a script: %v", err)
				return
			}
			t.wait(3 * time.Second)
			for killed := false; !killed; pause(20 * time.Millisecond) {
				err := t.rdb.ScriptKill(ctx).Err()
				killed = err == nil || strings.Contains(err.Error(), "NOTBUSY")
			}
			_ = conn.Close()
			t.awaitRedis()
		}
	}},
	"NOSCRIPT": {name: "SCRIPT FLUSH every 200 ms", begin: func(t *trial) {
		for t.wait(200 * time.Millisecond) {
			if err := t.rdb.ScriptFlush(context.Background()).Err(); err != nil {
				t.t.Errorf("flush the scripts: %v", err)
			}
		}
	}},
}

// ballast is what takes Redis long to read when it starts: a millisecond for each of these names, of another program.
func ballast(t *trial) {
	pipe := t.rdb.Pipeline()
	for i := range 3000 {
		pipe.Set(context.Background(), fmt.Sprint("ballast:", i), i, 0)
	}
	_, err := pipe.Exec(context.Background())
	must(t.t, err)
}

// slowlyLoading is a Redis that takes its time to read a data set, and answers meanwhile.
func slowlyLoading() func(*rig) {
	return func(r *rig) {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		server, err := embedded.StartRedis(ctx, embedded.RedisConfig{Kind: embedded.KindRedisServer, Settings: map[string]string{
			"key-load-delay": "1000", "loading-process-events-interval-bytes": "1024",
		}})
		must(r.t, err)
		r.t.Cleanup(func() { must(r.t, server.Close()) })
		r.redis = server
	}
}

// awaitRedis waits until it serves again.
func (t *trial) awaitRedis() {
	var err error
	for range 1000 {
		if err = t.rdb.Ping(context.Background()).Err(); err == nil {
			return
		}
		pause(10 * time.Millisecond)
	}
	t.t.Errorf("Redis does not serve again: %v", err)
}

// answered returns how often Redis has answered with an error since it was started last.
func (t *trial) answered(code string) (n int) {
	t.t.Helper()
	stats, err := t.rdb.Info(context.Background(), "errorstats").Result()
	must(t.t, err)
	for line := range strings.Lines(stats) {
		_, _ = fmt.Sscanf(line, "errorstat_"+code+":count=%d", &n)
	}
	return n
}

// halfKeyed is mixed, and every other job has no key.
func halfKeyed(rng *rand.Rand, t *trial) (keyed, job.Options) {
	args, options := leisurely(rng, t)
	if args.For /= 5; rng.IntN(2) == 0 {
		args.Keys, options.Keys = nil, nil
	}
	return args, options
}

// P4, P5: Redis is there and answers LOADING, BUSY or NOSCRIPT, again and again, while jobs come, with keys and without.
// All of them go on, no key has more holders than its limit, and when it is over hints come back. Short: 6 s of it, instead
// of 15 s in which workers are killed too.
func TestAnswersThatAreNoneHoldNobodyUp(t *testing.T) {
	t.Parallel()
	for code, f := range answers {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, seeds(1)[0], slowlyLoading())
			tr.jobs, tr.span = halfKeyed, pick(6*time.Second, 15*time.Second)
			tr.staff()
			began := time.Now()
			tr.load(pick([]fault{f}, []fault{f, kills})...)
			over := time.Now()
			n := tr.answered(code)
			tr.checkFlow(began, over, pollAlone+time.Second+crowd())
			tr.awaitHints(over)
			tr.awaitDone()
			tr.atRest()
			tr.judge()
			t.Logf("Redis has answered %s %d times since its last start", code, n)
			if n == 0 {
				t.Errorf("Redis has answered %s %d times since its last start: the test proves nothing", code, n)
			}
		})
	}
}

// checkFlow: of the jobs that came in a span those without keys started within a bound, and those with keys went on: a crowd of
// tests may leave most of them for later.
func (t *trial) checkFlow(from, to time.Time, most time.Duration) {
	t.t.Helper()
	late := t.lateness(from, to)
	keyed := t.ids("SELECT id FROM weir.jobs WHERE keys IS NOT NULL")
	starts := readLedgers(t.t, t.dir).of(started)
	n := 0
	for id, list := range starts.byID() {
		if keyed[id] && list[0].At.Before(to) {
			n++
		}
	}
	t.t.Logf("%d jobs without keys started %v after their time at the median, p99 %v, worst %v; %d of %d with keys have started meanwhile",
		len(late), quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1), n, len(keyed))
	if worst := quantile(late, 1); worst > most {
		t.t.Errorf("a job without keys started %v after its time, at most %v", worst, most)
	}
	if n < len(keyed)/10 {
		t.t.Errorf("%d of %d jobs with keys have started meanwhile", n, len(keyed))
	}
}
