package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// members returns the live processes, other than the leader, that belong to a server: those whose parent the leader
// is, and those that run exe in dir, since after the leader's death its orphans have another parent. (Not all that
// work in dir: a developer's shell may be there.) A leader of -1 is one that is gone.
func members(leader int, dir, exe string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == leader || pid == os.Getpid() {
			continue
		}
		parent, zombie := parentOf(pid)
		if zombie {
			continue
		}
		if parent == leader || (link(pid, "cwd") == dir && link(pid, "exe") == exe) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ended reports that pid is gone, or waits as a zombie for somebody else to reap it.
func ended(pid int) bool {
	_, zombie := parentOf(pid)
	return zombie
}

// link reads one of a process' symbolic links; empty when it is gone or another user's.
func link(pid int, name string) string {
	to, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return ""
	}
	return to
}

// parentOf reads /proc/PID/stat: "pid (name) state ppid …", where the name may hold blanks and parentheses.
// A process that is gone counts as a zombie.
func parentOf(pid int) (parent int, zombie bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, true
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, true
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, err != nil
}

// foreign reports that pid is provably no server of the data in dir, and that no process is.
func foreign(pid int, dir, exe string) bool {
	cwd := link(pid, "cwd")
	return cwd != "" && cwd != dir && len(members(-1, dir, resolved(exe))) == 0
}
