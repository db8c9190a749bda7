//go:build darwin || freebsd

package embedded

import (
	"os/exec"
	"strconv"
	"strings"
)

// members returns the live children of the leader. Unlike on Linux, orphans of a dead leader are not found: they end
// by themselves, a backend when its statement ends.
func members(leader int, _, _ string) []int {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[1] != strconv.Itoa(leader) || strings.HasPrefix(fields[2], "Z") {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// foreign would report that pid is provably no server of the data in dir; here nothing proves it.
func foreign(int, string, string) bool { return false }

// ended reports that pid is gone. Orphans are reaped by the system's first process, so none stays a zombie.
func ended(pid int) bool { return !exists(pid) }
