//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirq/weir/internal/embedded"
	"github.com/weirq/weir/internal/testenv"
)

// disk is a small file system of its own, in memory.
type disk struct {
	t   *testing.T
	dir string
}

// newDisk mounts one, which only root may do; for others the test is skipped.
func newDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("NOT RUN: a disk that can be filled is a tmpfs, and only root on Linux may mount one")
	}
	dir, err := os.MkdirTemp("", "weir-disk-*") // not the test's own directory: a server that is not root cannot enter that
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(dir) })
	size := fmt.Sprintf("size=%dm,mode=0755", megabytes)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		// Lazily: a backend of a server that was killed may take a moment to let go.
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v: %s", dir, err, out)
		}
	})
	return &disk{t: t, dir: dir}
}

// fill takes all space, and what becomes free later too: Postgres removes files of its own. It returns when the disk is
// full.
func (d *disk) fill() (free func()) {
	d.t.Helper()
	ballast, err := os.Create(filepath.Join(d.dir, "ballast"))
	must(d.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	full := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		block := make([]byte, 1<<20)
		isFull := sync.OnceFunc(func() { close(full) })
		for ctx.Err() == nil {
			_, err := ballast.Write(block)
			switch {
			case err == nil:
				continue
			case !errors.Is(err, syscall.ENOSPC):
				d.t.Errorf("write the ballast: %v", err)
				return
			case len(block) > 1<<12:
				block = block[:1<<12] // to the last page
				continue
			}
			isFull()
			pause(20 * time.Millisecond)
		}
	})
	free = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if err := errors.Join(ballast.Close(), os.Remove(ballast.Name())); err != nil {
			d.t.Errorf("remove the ballast: %v", err)
		}
	})
	d.t.Cleanup(free)
	select {
	case <-full:
	case <-time.After(time.Minute):
		d.t.Fatal("the disk is not full after a minute")
	}
	return free
}

// onDisk is a private server whose files lie on a small disk.
func onDisk(d **disk) func(*rig) {
	return func(r *rig) {
		*d = newDisk(r.t, 256) // a fresh database takes 40 MB, its log up to 64 MB, and the start wants 200 MB to be free
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		pg, err := embedded.StartPostgres(ctx, embedded.PostgresConfig{
			Dir:      filepath.Join((*d).dir, "data"),
			Settings: map[string]string{"min_wal_size": "32MB", "max_wal_size": "64MB"},
		})
		must(r.t, err)
		r.t.Cleanup(func() { must(r.t, pg.Close()) })
		r.postgres = pg
	}
}

// A disk that is full: what was acknowledged is there, enqueues fail or wait, no worker ends, no job is called interrupted,
// and with room again all goes on by itself; but a server that found no room for its write-ahead log has ended, and is
// started again by who runs it. Short: two seconds without room instead of a minute.
func TestAFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	for name, exhaust := range map[string]func(r *rig){
		"no room for tables": func(r *rig) {
			testenv.Eventually(r.t, 60*time.Second+crowd(), func() bool { return r.refusals("53100") > 0 }, "no enqueue was refused")
		},
		"no room for the write-ahead log": func(r *rig) {
			testenv.Eventually(r.t, 60*time.Second+crowd(), func() bool {
				return r.count("SELECT count(*) FROM (SELECT pg_switch_wal()) AS x") < 0
			}, "the server goes on")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d *disk
			r := newRig(t, onDisk(&d))
			sweeper := r.start(spec{Role: "sweeper", Name: "sweeper"})
			one, two := r.worker("one", slots(20)), r.worker("two", slots(20))
			l := r.load(200, work{For: 10 * time.Millisecond})
			r.awaitEvents(20*time.Second, 200, ended)
			sweeper.awaitTrust()
			free := d.fill()
			filled := time.Now()
			exhaust(r)
			pause(pick(2*time.Second, time.Minute))
			free()
			freed := time.Now()
			restarted := r.revive()
			r.awaitWork(freed)
			back := r.firstAfter(started, freed).Sub(freed)
			l.stop()
			r.awaitEmpty(30 * time.Second)
			if again := r.check(audit{starts: 2}); again > 0 {
				t.Errorf("%d jobs ran twice: nobody has died", again)
			}
			r.allAlive()
			r.stillRun(one, two)
			all := readLedgers(t, r.dir)
			if n := r.count("SELECT count(*) FROM weir.jobs"); n != len(all.of(acked)) {
				t.Errorf("%d jobs are stored, %d were acknowledged: an enqueue that was refused has stored one", n, len(all.of(acked)))
			}
			t.Logf("full for %v; %d acknowledged, %d refused; jobs start again %v after there was room; the server had ended: %v",
				freed.Sub(filled), len(all.of(acked)), len(all.of(refused)), back, restarted)
		})
	}
}

// refusals counts the enqueues that failed with an error that says so.
func (r *rig) refusals(text string) (n int) {
	r.t.Helper()
	for _, e := range readLedgers(r.t, r.dir).of(refused) {
		if strings.Contains(e.Err, text) {
			n++
		}
	}
	return n
}

// firstAfter returns the time of the first event of a kind that comes after at.
func (r *rig) firstAfter(what string, at time.Time) time.Time {
	r.t.Helper()
	for _, e := range readLedgers(r.t, r.dir).of(what) {
		if e.At.After(at) {
			return e.At
		}
	}
	r.t.Fatalf("nothing is %s after %v", what, at)
	return at
}

// revive starts the server again if it has ended, as whoever runs it would.
func (r *rig) revive() (hadEnded bool) {
	r.t.Helper()
	for range 10 {
		if r.count("SELECT 1") == 1 {
			return false
		}
		pause(100 * time.Millisecond)
	}
	must(r.t, r.postgres.Restart(context.Background()))
	return true
}
