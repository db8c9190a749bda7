package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingForAHandlerThatNeverReturnsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left when it ends
		var c crew
		c.join()
		for range 2 {
			if c.wait(time.Second) {
				t.Error("the wait ended though one is there")
			}
		}
		c.join()
		c.leave()
		time.AfterFunc(time.Second, c.leave)
		if begun := time.Now(); !c.wait(time.Minute) || time.Since(begun) != time.Second {
			t.Errorf("the wait ended %v after its begin, want 1s", time.Since(begun))
		}
		if !c.wait(time.Hour) {
			t.Error("nobody is there")
		}
	})
}
