package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/pgstore"
)

// wanted is what a claim may take of each kind.
type wanted struct {
	kinds []string
	rooms []int32          // in step with kinds; nil while no kind has a cap
	caps  map[*handler]int // room of each capped kind
}

// wantedKinds returns the kinds to claim: all but those whose cap is reached. When a kind may be claimed again its lanes
// are scanned from where it was first left out.
func (d *dispatcher) wantedKinds() wanted {
	var capped []*handler
	for _, h := range d.w.handlers {
		if h.slots > 0 && !slices.Contains(capped, h) { // an alias is the same handler
			capped = append(capped, h)
		}
	}
	want := wanted{caps: d.w.lanes.rooms(capped, time.Now())}
	for h, floor := range d.floors {
		if want.caps[h] == 0 {
			continue
		}
		for lane := range floor {
			for p := range floor[lane] {
				c := &d.mark.lanes[lane][p]
				c.at = least(c.at, floor[lane][p])
			}
		}
		delete(d.floors, h)
	}
	for _, kind := range slices.Sorted(maps.Keys(d.w.handlers)) {
		h := d.w.handlers[kind]
		room := int32(-1)
		if h.slots > 0 {
			room = int32(want.caps[h])
		}
		if room == 0 {
			continue
		}
		want.kinds = append(want.kinds, kind)
		if len(capped) > 0 {
			want.rooms = append(want.rooms, room)
		}
	}
	return want
}

// keepFloors remembers where a claim that began at starts may have left jobs of a capped kind behind: those that it did
// not ask for, and those of which it took as many as there was room for.
func (d *dispatcher) keepFloors(want wanted, starts [][pgstore.Ranges]pgstore.Position, took []job.Row) {
	left := maps.Clone(want.caps)
	for i := range took {
		if h := d.w.handlers[took[i].Kind]; h != nil && h.slots > 0 {
			left[h]--
		}
	}
	for h, room := range left {
		if room > 0 {
			continue
		}
		floor := d.floors[h]
		if floor == nil {
			d.floors[h] = slices.Clone(starts)
			continue
		}
		for lane := range floor {
			for p := range floor[lane] {
				floor[lane][p] = least(floor[lane][p], starts[lane][p])
			}
		}
	}
}
