package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// initialise makes a data directory unless there is one. It is made under another name and then renamed: a directory
// that an interrupted initdb left behind would look like a database and not be one.
//
// A ready directory copied from a cache would save 0.4 s of 0.7 s, for a lock and a cache to keep valid: not worth it.
func (p *Postgres) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(p.place.data, "PG_VERSION")); err == nil {
		return p.as.own(p.place.data) // made by us before, or the server will say what is wrong with it
	}
	stage, err := os.MkdirTemp(p.place.base, ".weir-initdb-*")
	if err != nil {
		return fmt.Errorf("make a directory for initdb: %w", err)
	}
	defer os.RemoveAll(stage)
	if err := p.as.own(stage); err != nil {
		return err
	}
	log, err := os.CreateTemp(p.place.base, ".weir-initdb-*.log")
	if err != nil {
		return fmt.Errorf("make a log for initdb: %w", err)
	}
	defer os.Remove(log.Name())
	defer log.Close()

	data := filepath.Join(stage, "data")
	args := []string{"-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C"}
	if p.place.temp != "" {
		args = append(args, "--no-sync") // these data need not survive the machine
	}
	proc, err := launch(command{
		path: filepath.Join(p.bins.dir, "initdb"), args: args, dir: stage, as: p.as, log: log,
	}, p.guard)
	if err != nil {
		return err
	}
	if err := proc.finish(ctx, "run initdb"); err != nil {
		return err
	}
	if err := writeAccess(data); err != nil {
		return err
	}
	if err := os.Rename(data, p.place.data); err != nil {
		return fmt.Errorf("put the data directory in place (it must be new, empty or Postgres'): %w", err)
	}
	return nil
}

// writeAccess lets in everybody who is on this machine, and nobody else, whatever listen_addresses says later.
func writeAccess(data string) error {
	const rules = "host all all 127.0.0.1/32 trust\nhost all all ::1/128 trust\n" +
		"host replication all 127.0.0.1/32 trust\nhost replication all ::1/128 trust\n"
	// initdb made the file as its user; writing keeps the owner.
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(rules), 0o600); err != nil {
		return fmt.Errorf("write access rules: %w", err)
	}
	return nil
}

// clearLock deals with a postmaster.pid in the data directory. While its process lives it may be a server that is still
// being shut down by the watchdog of a process that was killed: that is waited for. When it is gone the file is
// left to Postgres, which then looks for orphaned backends too. But an id may have been given to another process,
// after a reboot or in a container, and then Postgres refuses to start for ever; so the file is removed when its
// process is provably no server of these data, and no backend is left that is.
func (p *Postgres) clearLock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second) // the watchdog's longest shutdown, and some more
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	path := filepath.Join(p.place.data, "postmaster.pid")
	for {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read postmaster.pid: %w", err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		pid, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil || !exists(pid) {
			return nil // Postgres judges
		}
		if foreign(pid, p.place.data, filepath.Join(p.bins.dir, "postgres")) {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove stale postmaster.pid: %w", err)
			}
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is in use by the server with process id %d", p.place.data, pid)
		}
	}
}

// exists reports whether a process has this id, be it another user's.
func exists(pid int) bool {
	proc, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer proc.Release()
	err = proc.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, fs.ErrPermission)
}
