//go:build unix

package faults_test

import ("testing";"time")

func TestZZ(t *testing.T) {
	r := newRig(t, privatePostgres())
	r.worker("one", slots(20))
	b := time.Now()
	l := r.load(500, work{})
	pause(4*time.Second)
	l.stop()
	e := time.Now()
	r.awaitEmpty(30*time.Second)
	t.Log("drained after", time.Since(e))
	a := readLedgers(t, r.dir)
	t.Log(len(a.of(acked)), len(a.of(ended)), a.of(ended).rate(b, e), a.of(ended)[0], b)
	for i := range 10 { t.Log(a.of(acked).rate(b.Add(time.Duration(i)*time.Second), b.Add(time.Duration(i+1)*time.Second)), a.of(ended).rate(b.Add(time.Duration(i)*time.Second), b.Add(time.Duration(i+1)*time.Second)))}
}
