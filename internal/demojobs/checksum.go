package demojobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirq/weir/pkg/job"
	"github.com/weirq/weir/pkg/worker"
)

// MaxFile is the largest file that checksum reads, in bytes.
const MaxFile = 1 << 30

// Checksum reads a file.
type Checksum struct {
	Path string `json:"path"` // relative to the base directory, with slashes
}

// Kind names the jobs.
func (Checksum) Kind() string { return "checksum" }

// Sum is the result of a checksum job.
type Sum struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Lines  int64  `json:"lines"` // newlines
	Bytes  int64  `json:"bytes"`
}

// Sums reads files below one directory.
type Sums struct{ root *os.Root }

// OpenSums opens the base directory. It stays open until Close or the end of the process.
func OpenSums(dir string) (*Sums, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the base directory of checksum jobs: %w", err)
	}
	return &Sums{root: root}, nil
}

// Close closes the base directory.
func (s *Sums) Close() error { return s.root.Close() }

// Checksum is the handler. What no retry can mend (a path that leads out, a directory, a file too large) cancels the job.
func (s *Sums) Checksum(ctx context.Context, j *worker.Job[Checksum]) (Sum, error) {
	return s.Sum(ctx, j.Args.Path)
}

// Sum reads the file at path. An os.Root opens it: neither .. nor an absolute path nor a link leads out, even when somebody
// changes a directory into a link in between.
func (s *Sums) Sum(ctx context.Context, path string) (Sum, error) {
	local := filepath.FromSlash(path)
	if !filepath.IsLocal(local) {
		return Sum{}, job.Cancel(errors.New("path is not below the base directory"))
	}
	// Asked before it is opened: opening a named pipe would wait for its writer.
	info, err := s.root.Stat(local)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Sum{}, job.Cancel(err)
	case err != nil:
		return Sum{}, err
	case !info.Mode().IsRegular():
		return Sum{}, job.Cancel(errors.New("not a regular file"))
	case info.Size() > MaxFile:
		return Sum{}, job.Cancel(fmt.Errorf("the file has %d bytes, at most %d are read", info.Size(), MaxFile))
	}
	f, err := s.root.Open(local)
	if err != nil {
		return Sum{}, err
	}
	defer func() { _ = f.Close() }() // read only
	sum, err := read(ctx, f)
	sum.Path = path
	return sum, err
}

// read digests r, at most MaxFile bytes: the file may have grown since it was asked for its size.
func read(ctx context.Context, r io.Reader) (Sum, error) {
	var (
		sum    Sum
		digest = sha256.New()
		part   = make([]byte, 64<<10)
	)
	for {
		if ctx.Err() != nil {
			return Sum{}, context.Cause(ctx)
		}
		n, err := r.Read(part)
		sum.Bytes += int64(n)
		sum.Lines += int64(bytes.Count(part[:n], []byte("\n")))
		_, _ = digest.Write(part[:n]) // a hash takes everything
		switch {
		case sum.Bytes > MaxFile:
			return Sum{}, job.Cancel(fmt.Errorf("the file has more than %d bytes", MaxFile))
		case errors.Is(err, io.EOF):
			sum.SHA256 = hex.EncodeToString(digest.Sum(nil))
			return sum, nil
		case err != nil:
			return Sum{}, err
		}
	}
}
