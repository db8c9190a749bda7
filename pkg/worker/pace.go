package worker

import "time"

// prefetchWindow is how far ahead jobs are claimed: what handlers will start within it.
const prefetchWindow = 100 * time.Millisecond

// maxPrefetch bounds the jobs that wait in this process, so that a sudden stall keeps few from others.
const maxPrefetch = 2000

// pace measures the starts of a lane, or of a kind with a cap, and says how many more will start within a window.
type pace struct {
	windowStart time.Time // of the count of starts that sets the prefetch
	last        time.Time // of the last start
	starts      int
	prefetch    int
}

// count measures starts and, once a window, sets the prefetch to what was started in it beyond the slots.
func (p *pace) count(now time.Time, slots int) {
	p.last = now
	p.starts++
	since := now.Sub(p.windowStart)
	if since < prefetchWindow {
		// A full window is not needed to see that handlers are faster than claims: grow at once, shrink by windows.
		p.prefetch = max(p.prefetch, min(p.starts-slots, maxPrefetch))
		return
	}
	p.prefetch = 0
	if since < 2*prefetchWindow {
		p.prefetch = min(max(p.starts-slots, 0), maxPrefetch)
	}
	p.windowStart, p.starts = now, 0
}

// ahead is the prefetch now: what was measured is of no use after a pause.
func (p *pace) ahead(now time.Time) int {
	if now.Sub(p.last) > 2*prefetchWindow {
		return 0
	}
	return p.prefetch
}
