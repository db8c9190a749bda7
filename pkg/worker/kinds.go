package worker

import "github.com/weirq/weir/pkg/pgstore"

// claimKinds returns the kinds to claim: all but those whose cap is reached. When a kind may be claimed again its lanes
// are scanned from where it was left out.
func (d *dispatcher) claimKinds() []string {
	full := d.w.lanes.fullKinds()
	for h, floor := range d.floors {
		if full[h] {
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
	for h := range full {
		if d.floors[h] == nil {
			d.floors[h] = make([][pgstore.Priorities]pgstore.Position, 0)
		}
	}
	kinds := make([]string, 0, len(d.w.handlers))
	for kind, h := range d.w.handlers {
		if !full[h] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// keepFloors remembers, for each kind that is left out, the lowest scan that did so.
func (d *dispatcher) keepFloors(starts [][pgstore.Priorities]pgstore.Position) {
	for h, floor := range d.floors {
		if len(floor) == 0 {
			d.floors[h] = append(floor, starts...)
			continue
		}
		for lane := range floor {
			for p := range floor[lane] {
				floor[lane][p] = least(floor[lane][p], starts[lane][p])
			}
		}
	}
}
