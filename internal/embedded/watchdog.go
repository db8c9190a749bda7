package embedded

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

const shell = "/bin/sh"

// gateScript holds a server back until its watchdog knows of it; end of file instead of a line means that we died.
const gateScript = `read -r go && exec "$@" </dev/null`

// watchScript reads process ids from its standard input, the last one counts and 0 is none. At end of file it stops
// that process and removes the directory; "off" ends it without doing either.
// $1 is the directory or empty, $2 … are the signals to try, each given seven seconds.
// Seven, since a postmaster told to QUIT kills backends that do not react (stopped ones, say) after five.
const watchScript = `
PATH=$PATH:/usr/bin:/bin
trap '' INT TERM HUP QUIT
pid=0 dir=$1
shift
while read -r word; do
	case $word in
	off) exit 0 ;;
	*) pid=$word ;;
	esac
done
if [ "$pid" -gt 1 ]; then
	kill -CONT "$pid"
	for signal in "$@"; do
		kill -"$signal" "$pid" || break
		n=0
		while [ $n -lt 140 ] && kill -0 "$pid"; do
			sleep 0.05
			n=$((n + 1))
		done
	done
fi
if [ -n "$dir" ]; then
	rm -rf -- "$dir" || { sleep 1; rm -rf -- "$dir"; }
fi
`

// watchdog is the process that stops a server when we are gone.
type watchdog struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	pipe *os.File // nil after dismiss
}

// startWatchdog starts a watchdog that tries signals ("INT", "KILL") in order and then removes dir, if not empty.
// It runs as ourselves: as root it may signal the user the server runs as.
func startWatchdog(dir string, signals ...string) (*watchdog, error) {
	r, w, err := os.Pipe() // close-on-exec: no other child may hold the write end, or the end of file never comes
	if err != nil {
		return nil, fmt.Errorf("make watchdog pipe: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(shell, append([]string{"-c", watchScript, "weir-watchdog", dir}, signals...)...)
	cmd.Stdin = r
	cmd.Dir = "/" // keeps no directory busy
	cmd.Env = serverEnv("/")
	cmd.SysProcAttr = detached(nil)
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, pipe: w}, nil
}

// watch names the process to stop; 0 forgets the last one. What is written is read even if we die right after.
func (w *watchdog) watch(pid int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pipe == nil {
		return nil
	}
	if _, err := w.pipe.WriteString(strconv.Itoa(pid) + "\n"); err != nil {
		return fmt.Errorf("tell watchdog: %w", err)
	}
	return nil
}

// dismiss ends the watchdog without stopping anything. It may be called again.
func (w *watchdog) dismiss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pipe == nil {
		return
	}
	// An error means that somebody killed the watchdog: then there is nothing to dismiss.
	_, _ = w.pipe.WriteString("off\n")
	_ = w.pipe.Close()
	w.pipe = nil
	_ = w.cmd.Wait()
}

// serverEnv is the whole environment of a server: ours may hold secrets and PG… variables that would steer it.
func serverEnv(home string) []string {
	env := []string{"LC_ALL=C", "HOME=" + home} // C: its messages are read, and macOS starts threads for others
	for _, name := range []string{"PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// lastLines returns the last n lines of text on one line, for an error.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ")
}
