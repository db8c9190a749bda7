package coord

import (
	"fmt"
	"strings"
)

// protocol is the version of all keys, channels and messages. Processes with different numbers do not hear each other;
// their jobs still run, at poll latency. Raise it when a key or message changes its meaning.
const protocol = 1

// keys makes every Redis key and channel name of one namespace. At most one part of a name is free, and it is the last
// one, so two different tuples never share a key whatever bytes they hold. The hash tag keeps a namespace in one slot.
type keys struct {
	prefix string // "{weir}:1:"
}

func newKeys(namespace string) keys {
	return keys{prefix: fmt.Sprintf("{%s}:%d:", escape(namespace), protocol)}
}

// idle is the sorted set of the idle workers of a queue; score = free slots.
func (k keys) idle(queue string) string { return k.prefix + "idle:" + queue }

// progress is what a running job last said.
func (k keys) progress(job string) string { return k.prefix + "progress:" + job }

// lock is the sorted set of a key's holders; member = job, score = expiry in ms.
func (k keys) lock(name string) string { return k.prefix + "lock:" + name }

// rate is what reserve.lua keeps of a rate: a hash with the ends of its lines, a sorted set of buckets of time with what
// started and is to start in them, one of the jobs and their instants, and one of the instants that were given back.
func (k keys) rate(name string) []string {
	return []string{k.prefix + "rate:" + name, k.prefix + "ratebuckets:" + name, k.prefix + "ratejobs:" + name, k.prefix + "rateholes:" + name}
}

// probe is written, for a millisecond, only to learn which connections lead to a read-only server.
func (k keys) probe() string { return k.prefix + "probe" }

// workerPrefix and a worker's name make that worker's own channel; wake.lua joins them.
func (k keys) workerPrefix() string { return k.prefix + "worker:" }

// worker is the channel that only this worker listens to.
func (k keys) worker(worker string) string { return k.workerPrefix() + worker }

// control is the channel that every process listens to.
func (k keys) control() string { return k.prefix + "control" }

// escape keeps a namespace from ending the hash tag early (a brace) or from being read as another one.
func escape(namespace string) string {
	var b strings.Builder
	for i := range len(namespace) {
		switch c := namespace[i]; c {
		case '{', '}', '%':
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
