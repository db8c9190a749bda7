package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirq/weir/pkg/client"
	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/sweeper"
	"github.com/weirq/weir/pkg/worker"
)

// Numbers that no float64 holds, digits that a decoder would drop, spaces and an order that an encoder would change.
const exactly = `{"note": "%s",  "n":7205759403792793601, "m":9007199254740993,"d":0.1234567890123456789,"e":1e400,"u":18446744073709551615, "a":1}`

// B04: a payload is never decoded and encoded again on its way: at once, late, retried, taken over from a process that is
// given up, sent again by hand, from SQL, and in what lists and shows.
func TestAPayloadReachesTheHandlerByteForByteOnEveryWay(t *testing.T) {
	inModes(t, func(t *testing.T, r *rig) {
		type seen struct {
			payload string
			fence   int
		}
		got := map[string]chan seen{}
		for _, way := range []string{"now", "late", "retried", "rescued", "by hand", "from SQL"} {
			got[way] = make(chan seen, 5)
		}
		w := r.worker()
		worker.Handle(w, func(ctx context.Context, j *worker.Job[task]) error {
			got[j.Args.Note] <- seen{string(j.Payload), j.Fence}
			if j.Fence > 1 {
				return nil
			}
			switch j.Args.Note {
			case "retried":
				return job.RetryIn(50*time.Millisecond, errors.New("once"))
			case "by hand":
				return job.Discard(errors.New("no"))
			case "rescued":
				<-ctx.Done()
			}
			return nil
		})
		u := r.run(w)
		payload := func(way string) string { return fmt.Sprintf(exactly, way) }
		add := func(way string, o job.Options) job.ID {
			return r.add(job.Raw{Name: "task", Payload: json.RawMessage(payload(way))}, o)
		}
		comes := func(way string) {
			t.Helper()
			if s := receive(t, got[way], way); s.payload != payload(way) {
				t.Errorf("%s, fence %d: got %s", way, s.fence, s.payload)
			}
		}
		ids := map[string]job.ID{
			"now": add("now", job.Options{}), "late": add("late", job.Options{Delay: 300 * time.Millisecond}), "retried": add("retried", job.Options{}),
			"by hand": add("by hand", job.Options{}),
		}
		for _, way := range []string{"now", "late", "retried", "retried", "by hand"} {
			comes(way)
		}
		r.reaches(ids["by hand"], job.Discarded)
		if err := r.Retry(t.Context(), ids["by hand"]); err != nil {
			t.Fatal(err)
		}
		comes("by hand")
		r.exec("SELECT %s.enqueue('task', '" + payload("from SQL") + "')")
		comes("from SQL")
		ids["rescued"] = add("rescued", job.Options{})
		comes("rescued")
		before := u.Stats().Session
		r.exec("UPDATE %s.sessions SET dead_at = clock_timestamp() WHERE role = 'worker'")
		r.await("a new session", func() bool { s := u.Stats().Session; return s != "" && s != before })
		s, err := sweeper.New(r.Client, sweeper.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.RunDuty(t.Context(), "recover"); err != nil {
			t.Fatal(err)
		}
		comes("rescued")
		for way, id := range ids {
			if row := r.reaches(id, job.Completed); string(row.Payload) != payload(way) {
				t.Errorf("%s is shown as %s", way, row.Payload)
			}
		}
		listed := 0
		for row, err := range r.Jobs(t.Context(), client.Filter{Kind: "task"}) {
			if err != nil {
				t.Fatal(err)
			}
			var args task
			if err := json.Unmarshal(row.Payload, &args); err != nil || string(row.Payload) != payload(args.Note) {
				t.Errorf("listed as %s, %v", row.Payload, err)
			}
			listed++
		}
		if listed != len(ids)+1 {
			t.Errorf("%d jobs are listed", listed)
		}
	})
}
