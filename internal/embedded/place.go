package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// place is where a server keeps its files.
type place struct {
	base string // exists already: the temporary directory, or the parent of the caller's
	temp string // the directory to remove at the end; empty when it is the caller's
	data string // the server's own directory
	log  *os.File
}

// makePlace makes a temporary directory by pattern with the server's directory "data" in it, or prepares dir for that.
// Only initialise makes the server's directory itself. Paths are without symbolic links, as /proc shows them.
func makePlace(pattern, dir string, as *account) (place, error) {
	if dir == "" {
		temp, err := makeTemp(pattern, as)
		if err != nil {
			return place{}, err
		}
		return place{base: temp, temp: temp, data: filepath.Join(temp, "data")}, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return place{}, fmt.Errorf("find %s: %w", dir, err)
	}
	parent := filepath.Dir(abs)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return place{}, fmt.Errorf("make %s: %w", parent, err)
	}
	parent = resolved(parent)
	if err := as.canEnter(parent); err != nil {
		return place{}, err
	}
	return place{base: parent, data: resolved(filepath.Join(parent, filepath.Base(abs)))}, nil
}

// makeTemp makes a directory that the account owns and can reach: root's TMPDIR may be closed to others.
func makeTemp(pattern string, as *account) (string, error) {
	var errs []error
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		parent = resolved(parent)
		if err := as.canEnter(parent); err != nil {
			errs = append(errs, err)
			continue
		}
		dir, err := os.MkdirTemp(parent, pattern)
		if err == nil {
			err = as.own(dir)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("make a temporary directory: %w", errors.Join(errs...))
}

// openLog opens weir.log in the data directory, empty. It stays open through restarts.
func (p *place) openLog() error {
	path := filepath.Join(p.data, "weir.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	p.log = f
	return nil
}

// close removes what is temporary.
func (p *place) close() error {
	var errs []error
	if p.log != nil {
		errs = append(errs, p.log.Close())
	}
	if p.temp != "" {
		errs = append(errs, os.RemoveAll(p.temp))
	}
	return errors.Join(errs...)
}
