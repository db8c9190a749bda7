package model

// lockKeys is the first half of lock_keys.sql: which of the ids may have all their locks, and the slots for them.
func (m locks) lockKeys(s *lockState, ids uint8, areBlocked bool, refused uint8) (p plan) {
	var taken [lockKeys]uint8 // slots given in this very statement
	var before [lockKeys]int8
	for j := range s.job {
		if ids&(1<<j) == 0 {
			continue
		}
		all := true
		for _, k := range m.keys[j] {
			owned, rows := s.owns(j, k) && m.on(ownRow), m.rows(s, k)
			may := rows+before[k] < s.limit[k] && refused&(1<<j) == 0
			if may && m.on(olderBlocked) {
				may = rows+before[k]+m.ahead(s, k, j) < s.limit[k]
			}
			if owned {
				may = rows <= s.limit[k] || !m.on(ownRowLimit)
			}
			if !owned && !areBlocked && m.on(batchOrder) {
				before[k]++
			}
			if all && !may {
				p.busy[j] = int8(k + 1)
			}
			all = all && may
		}
		if !all {
			p.block |= 1 << j
			continue
		}
		p.want |= 1 << j
		for _, k := range m.keys[j] {
			if s.owns(j, k) && m.on(ownRow) {
				continue
			}
			p.slot[j][k] = s.freeSlot(k, taken[k]) + 1
			taken[k] |= 1 << (p.slot[j][k] - 1)
		}
	}
	return p
}

// freeSlot returns the lowest slot that the snapshot shows free. There may be none only where a guard is off: then the
// insert will meet a conflict on the first.
func (s *lockState) freeSlot(k int, taken uint8) int8 {
	for i, r := range s.row[k] {
		if r.job == 0 && taken&(1<<i) == 0 {
			return int8(i)
		}
	}
	return 0
}

// put is the second half: the insert, which other rows may be in the way of by now. It reports whether the job has all its
// locks; else it holds nothing, and says what it gave up.
func (m locks) put(s *lockState, p *plan, j int, run bool) (got bool, gaveUp uint8) {
	got = true
	for _, k := range m.keys[j] {
		if at := p.slot[j][k]; at != 0 {
			if r := &s.row[k][at-1]; r.job == 0 {
				*r = lockRow{job: int8(j + 1), fence: s.job[j].fence, until: true}
			} else {
				if got {
					p.busy[j] = int8(k + 1)
				}
				got = false
			}
		}
	}
	if !got {
		return false, s.unlock(j, -1)
	}
	for k := range s.row {
		for i := range s.row[k] {
			if r := &s.row[k][i]; int(r.job) == j+1 && r.fence == s.job[j].fence && run {
				r.until = false
				r.fence++
			}
		}
	}
	return true, 0
}

// unlock deletes a job's rows of one fence, or of any if that is below 0, and returns their keys.
func (s *lockState) unlock(j int, fence int8) (keys uint8) {
	for k := range s.row {
		for i := range s.row[k] {
			if r := &s.row[k][i]; int(r.job) == j+1 && (fence < 0 || r.fence == fence) {
				*r = lockRow{}
				keys |= 1 << k
			}
		}
	}
	return keys
}
