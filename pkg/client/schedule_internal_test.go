package client

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsTheTimeOfTheCommitUnlessItIsSaid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"2026-01-02T03:04:05Z": 1767323045, "": 0, "yesterday": 0, "0001-01-01T00:00:00Z": 0} {
		if got := commitTime([]debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.time", Value: text}}); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := commitTime(nil); got != 0 {
		t.Errorf("without a commit: %d", got)
	}
	if got, err := versionOf([]SyncOptions{{Version: 3}, {}, {Version: 5}, {}}); got != 5 || err != nil {
		t.Errorf("said: %d, %v", got, err)
	}
}
