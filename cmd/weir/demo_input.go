package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"
)

// The bounds of a demo, so that it ends within a minute whatever folder it is pointed at.
const (
	maxDemoJobs  = 100_000
	leastJobs    = 5_000                // when --jobs does not say how many
	maxVisited   = 1_000_000            // directory entries looked at
	maxRead      = int64(2_000_000_000) // bytes that all jobs together read
	maxFileBytes = int64(500_000_000)
)

// file is one that a job may be for.
type file struct {
	name string // below the folder, with slashes
	size int64
}

// input is the files of a demo and the job for each.
type input struct {
	dir    string // as the caller named it
	root   string // the same, absolute and without links
	files  []file
	bytes  int64 // of files
	tooBig int   // files left out for their size
	isMore bool  // there were more files than jobs or than were looked at
	jobs   []int // index into files
}

// scan finds the regular files below dir that can be read and gives each a job. Symbolic links are not followed and .git
// is passed over. jobs is how many jobs there are to be; 0 is one for each file, and at least leastJobs.
func scan(ctx context.Context, dir string, jobs int) (*input, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", dir, err)
	}
	// The folder itself may be a link; those below are not followed, so no file is met twice and nothing outside.
	root, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("read --dir: %w", err)
	}
	in := &input{dir: dir, root: root}
	limit := maxDemoJobs
	if jobs > 0 {
		limit = jobs
	}
	if err := in.walk(ctx, limit); err != nil {
		return nil, err
	}
	if len(in.files) == 0 {
		return nil, fmt.Errorf("no file that can be read below %s: name another folder with --dir", dir)
	}
	if jobs == 0 {
		jobs = max(len(in.files), leastJobs)
	}
	if !in.trim(jobs) {
		return nil, fmt.Errorf("%s jobs would read more than %s below %s: give fewer --jobs or another --dir",
			number(int64(jobs)), byteSize(maxRead), dir)
	}
	for i := range jobs {
		in.jobs = append(in.jobs, i%len(in.files))
	}
	return in, nil
}

// walk collects up to limit files in the order of their names.
func (in *input) walk(ctx context.Context, limit int) error {
	visited := 0
	err := filepath.WalkDir(in.root, func(path string, entry fs.DirEntry, err error) error {
		if visited++; len(in.files) == limit || visited > maxVisited {
			in.isMore = true
			return filepath.SkipAll
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if path == in.root {
				return err
			}
			return nil // one that may not be read, or is gone
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if f, ok := readable(in.root, path, entry); ok {
			in.files = append(in.files, f)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for files below %s: %w", in.dir, err)
	}
	return nil
}

// readable returns the file if it is a regular one that can be opened.
func readable(root, path string, entry fs.DirEntry) (file, bool) {
	if !entry.Type().IsRegular() {
		return file{}, false
	}
	name, err := filepath.Rel(root, path)
	if err != nil || !utf8.ValidString(name) { // JSON cannot carry other names
		return file{}, false
	}
	info, err := entry.Info()
	if err != nil {
		return file{}, false
	}
	opened, err := os.Open(path)
	if err != nil {
		return file{}, false
	}
	_ = opened.Close()
	return file{name: filepath.ToSlash(name), size: info.Size()}, true
}

// trim leaves the largest files out until all jobs together read no more than maxRead. It reports whether any is left.
func (in *input) trim(jobs int) bool {
	slices.SortFunc(in.files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.name, b.name))
	})
	all := len(in.files)
	for _, f := range in.files {
		in.bytes += f.size
	}
	for n := len(in.files); n > 0; n-- {
		perFile := int64((jobs + n - 1) / n)
		largest := in.files[n-1].size
		// Checked one by one first: their product may not fit into an int64.
		if largest <= maxFileBytes && in.bytes <= maxRead && in.bytes*perFile <= maxRead {
			break
		}
		in.bytes -= largest
		in.files = in.files[:n-1]
	}
	in.tooBig = all - len(in.files)
	// Back in the order of names, so that the large ones do not all come last.
	slices.SortFunc(in.files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return len(in.files) > 0
}

// largest returns the numbers of the jobs of up to n different files, the largest first. Jobs go round the files in their
// order, and there are no fewer jobs than files: job i is for file i.
func (in *input) largest(n int) []int {
	order := make([]int, len(in.files))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(in.files[b].size, in.files[a].size) })
	return order[:min(n, len(order))]
}

func (in *input) tell(s *screen) {
	more := ""
	if in.isMore {
		more = " of more"
	}
	s.say("  input     %s      %s files%s, %s -> %s jobs (kind checksum)",
		in.dir, number(int64(len(in.files))), more, byteSize(in.bytes), number(int64(len(in.jobs))))
	if in.tooBig > 0 {
		s.say("            %s larger files left out: all jobs together read at most %s", number(int64(in.tooBig)), byteSize(maxRead))
	}
}

// pace stretches a demo to a time in which a person can follow it.
type pace struct {
	whole time.Duration // what it is stretched to, from the workers' start to the last job
	each  time.Duration // what a job takes at least
}

// slotsEach is how many jobs a worker runs at once; mustHold is how many the killed one must hold when there are enough.
const (
	slotsEach = 20
	mustHold  = 20
)

// newPace returns the pace for so many jobs: 8 s, above 20,000 jobs more, at most 36 s. override, if not empty, is a
// duration to take instead: tests are in a hurry.
func newPace(jobs int, override string) (pace, error) {
	p := pace{whole: min(max(8*time.Second, time.Duration(jobs)*400*time.Microsecond), 36*time.Second)}
	if override != "" {
		d, err := time.ParseDuration(override)
		if err != nil || d < 0 || d > time.Minute {
			return p, fmt.Errorf("WEIR_DEMO_PACE is %.32q, want 0s to 1m", override)
		}
		p.whole = d
	}
	// Half of the jobs on both workers' slots, half on one's: jobs/2/40 + jobs/2/20 = jobs·3/80 rounds of each.
	p.each = min(p.whole*4*slotsEach/time.Duration(3*max(jobs, 1)), time.Second)
	return p, nil
}
