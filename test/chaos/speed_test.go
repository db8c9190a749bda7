//go:build unix

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// The machine for which the bounds of the short form were set: an idle one took so long for a round of each probe.
const (
	usualSort = 50 * time.Millisecond
	usualSync = 400 * time.Microsecond
)

// maxSlower bounds what is forgiven: a machine that is slower still cannot say much about time.
const maxSlower = 4

// slower is by how much this machine is slower than the usual one, from 1 to maxSlower: of sorting on all processors, and of
// making a small write durable, the worse. It is measured once, before the tests: what they do to each other is in crowd.
var slower = 1.0

func measureSpeed() error {
	sorted, err := median(sortOnAll)
	if err != nil {
		return err
	}
	synced, err := median(syncOnce)
	if err != nil {
		return err
	}
	slower = min(max(sorted.Seconds()/usualSort.Seconds(), synced.Seconds()/usualSync.Seconds(), 1), maxSlower)
	fmt.Printf("this machine: a sort takes %v, a durable write %v: bounds for a crowd are %.1f times the usual\n",
		sorted.Round(time.Millisecond), synced.Round(10*time.Microsecond), slower)
	return nil
}

func median(probe func() error) (time.Duration, error) {
	var took []time.Duration
	for range 9 {
		began := time.Now()
		if err := probe(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func sortOnAll() error {
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, 2))
			list := make([]uint64, 1<<19)
			for i := range list {
				list[i] = rnd.Uint64()
			}
			slices.Sort(list)
		})
	}
	all.Wait()
	return nil
}

func syncOnce() error {
	f, err := os.CreateTemp("", "weir-sync")
	if err != nil {
		return err
	}
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }() // only a probe
	if _, err := f.Write(make([]byte, 8<<10)); err != nil {
		return err
	}
	return f.Sync()
}
