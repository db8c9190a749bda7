package child

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const (
	prSetChildSubreaper = 36
	waitAll             = 0 // P_ALL
	waitNoReap          = 0x01000000
	waitExited          = 4
)

// victimScore makes the kernel take a child before the worker when memory ends. 1000 would be "always first".
const victimScore = "500"

// selfPath is the program as it was started, also when its file was replaced since.
func selfPath() string { return "/proc/self/exe" }

func attributes(tied bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if tied {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}

func becomeSubreaper() {
	// An old kernel refuses: then those that leave their group escape, as they do elsewhere.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

func preferAsVictim(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(victimScore), 0o600) // it may have ended
}

// awaitAny waits until a child has ended and leaves it a zombie.
func awaitAny() (pid int, err error) {
	var info [128]byte // siginfo_t: pid at offset 16 on 64-bit systems, 12 on others
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitAll, 0, uintptr(unsafe.Pointer(&info)), waitExited|waitNoReap, 0, 0)
		switch errno {
		case 0:
			at := 8 + int(unsafe.Sizeof(uintptr(0)))
			return int(*(*int32)(unsafe.Pointer(&info[at]))), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

func collect(pid int) (status syscall.WaitStatus, ok bool) {
	for {
		n, err := syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			return status, err == nil && n == pid
		}
	}
}

// process is a line of the table of processes.
type process struct {
	pid, parent, group int
	rss                int64
	zombie             bool
}

// readProcess reads /proc/<pid>/stat.
func readProcess(pid int) (p process, ok bool) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	at := bytes.LastIndexByte(line, ')') // the name before it may hold anything
	if at < 0 {
		return p, false
	}
	f := strings.Fields(string(line[at+1:]))
	if len(f) < 22 {
		return p, false
	}
	p.pid, p.zombie = pid, f[0] == "Z"
	p.parent, _ = strconv.Atoi(f[1])
	p.group, _ = strconv.Atoi(f[2])
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	p.rss = pages * int64(os.Getpagesize())
	return p, true
}

// processes reads the whole table.
func processes() (all []process) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }() // only read
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// adoptedLocked returns the orphans that came to us and that no living child owns.
func (s *supervisor) adoptedLocked(all []process) (ownerless []process) {
	us := os.Getpid()
	for _, p := range all {
		if p.parent == us && !p.zombie && s.kids[p.pid] == nil && s.ownerLocked(p) == nil {
			ownerless = append(ownerless, p)
		}
	}
	return ownerless
}

// ownerLocked returns the child to which a process that is not one itself belongs: by its group, else by its cookie.
func (s *supervisor) ownerLocked(p process) *kid {
	if k := s.kids[p.group]; k != nil {
		return k
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(string(env), "\x00") {
		if text, ok := strings.CutPrefix(line, Cookie+"="); ok {
			seq, _ := strconv.ParseInt(text, 10, 64)
			return s.seqs[seq]
		}
	}
	return nil
}

// killOrphans kills what jobs left behind that have ended, and returns how many there were. What is killed may leave orphans
// in turn: its own end brings us back.
func (s *supervisor) killOrphans() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killOrphansLocked(ourChildren())
}

func (s *supervisor) killOrphansLocked(all []process) (n int) {
	for _, p := range s.adoptedLocked(all) {
		n++
		if p.group == p.pid {
			_ = syscall.Kill(-p.pid, syscall.SIGKILL) // our child: not reaped, so the id is its
		}
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	return n
}

// ourChildren returns the processes whose parent we are: from the kernel's lists if it was built with them, else from the
// whole table.
func ourChildren() (all []process) {
	if !hasChildren() {
		return nil
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return processes()
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil {
			return processes()
		}
		for _, name := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(name)
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// hasChildren reports whether we have any child, by asking for one that has ended without waiting or reaping.
func hasChildren() bool {
	var info [128]byte
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitAll, 0, uintptr(unsafe.Pointer(&info)), waitExited|waitNoReap|syscall.WNOHANG, 0, 0)
	return errno != syscall.ECHILD
}

// How often memory is looked at: of the children themselves, and with all that they started.
const (
	sampleEvery = 100 * time.Millisecond
	treeEvery   = time.Second
)

// sample kills children that hold more memory than they may, and orphans that no end of a child announced.
func (s *supervisor) sample() {
	var tree time.Time
	for range time.Tick(sampleEvery) {
		s.mu.Lock()
		for pid, k := range s.kids {
			if p, ok := readProcess(pid); ok {
				k.judgeLocked(p.rss)
			}
		}
		if len(s.kids) > 0 && time.Since(tree) >= treeEvery {
			tree = time.Now()
			all := processes()
			s.killOrphansLocked(all)
			s.judgeTreesLocked(all)
		}
		s.mu.Unlock()
	}
}

func (k *kid) judgeLocked(rss int64) {
	if k.maxRSS <= 0 || rss <= k.maxRSS || k.exceeded > 0 {
		return
	}
	k.exceeded = rss
	_ = syscall.Kill(-k.pid, syscall.SIGKILL)
}

// judgeTreesLocked adds up what each child's descendants hold. Shared pages count for each: a limit is not a ledger.
func (s *supervisor) judgeTreesLocked(all []process) {
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.pid] = p.parent
	}
	sums := make(map[*kid]int64)
	for _, p := range all {
		k := s.kids[p.group]
		for at, hops := p.pid, 0; k == nil && at > 1 && hops < 64; at, hops = parents[at], hops+1 {
			k = s.kids[at]
		}
		if k != nil {
			sums[k] += p.rss
		}
	}
	for k, rss := range sums {
		k.judgeLocked(rss)
	}
}

// Children returns the processes that this one has started and that were not waited for. It costs one system call when
// there are none.
func Children() (pids []int) {
	us := os.Getpid()
	for _, p := range ourChildren() {
		if p.parent == us {
			pids = append(pids, p.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// RSS returns how many bytes this process holds resident; 0 if that is not known.
func RSS() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// SetTitle shows what this process is at, where tools show a process' short name (15 bytes).
func SetTitle(title string) {
	_ = os.WriteFile("/proc/self/comm", []byte(title[:min(len(title), 15)]), 0o600) // only for show
}
