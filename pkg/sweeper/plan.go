package sweeper

import (
	"time"

	"github.com/weirq/weir/pkg/pgstore"
)

// missing returns the partitions of parent that there should be at now, from the present one to so many ahead, and that
// existing does not have. Where existing has some of another width (the width was changed), the gaps are filled with
// narrower ones.
func missing(existing []pgstore.Partition, parent string, width pgstore.Width, ahead int, now time.Time) []pgstore.Partition {
	var own []pgstore.Partition
	for _, p := range existing {
		if p.Parent == parent && !p.From.IsZero() {
			own = append(own, p)
		}
	}
	var out []pgstore.Partition
	from := pgstore.Floor(width, now)
	for range ahead + 1 {
		out = append(out, cover(own, parent, width, from, now)...)
		from = from.Add(width.Duration())
	}
	return out
}

// cover returns what has to be made so that all of the stretch of one width from from has a partition.
func cover(own []pgstore.Partition, parent string, width pgstore.Width, from, now time.Time) []pgstore.Partition {
	to := from.Add(width.Duration())
	if !to.After(now) {
		return nil // a narrower one that is over: what came in it lies in the default partition
	}
	isFree := true
	for _, p := range own {
		if !p.From.After(from) && !p.To.Before(to) {
			return nil
		}
		if p.From.Before(to) && p.To.After(from) {
			isFree = false
		}
	}
	if isFree {
		return []pgstore.Partition{{Parent: parent, Name: pgstore.PartitionName(parent, width, from), From: from, To: to}}
	}
	narrower := width + 1
	if !narrower.Valid() {
		return nil
	}
	var out []pgstore.Partition
	for ; from.Before(to); from = from.Add(narrower.Duration()) {
		out = append(out, cover(own, parent, narrower, from, now)...)
	}
	return out
}
