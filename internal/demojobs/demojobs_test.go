package demojobs_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weirq/weir/internal/demojobs"
	"github.com/weirq/weir/pkg/job"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChecksumReadsAFileBelowItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a", "b.txt"), "one\ntwo\n")
	sums, err := demojobs.OpenSums(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sums.Close() }()
	got, err := sums.Sum(t.Context(), "a/b.txt")
	want := demojobs.Sum{Path: "a/b.txt", SHA256: "c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8", Lines: 2, Bytes: 8}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestChecksumDoesNotLeaveItsDirectory(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret"), "S3CR3T")
	write(t, filepath.Join(dir, "in"), "fine")
	if runtime.GOOS != "windows" {
		for _, link := range [][2]string{{outside, "dirlink"}, {filepath.Join(outside, "secret"), "filelink"}} {
			if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	sums, err := demojobs.OpenSums(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sums.Close() }()
	for _, path := range []string{
		"", ".", "..", "../" + filepath.Base(outside) + "/secret", filepath.Join(outside, "secret"), "/etc/passwd", "a/../../x",
		"dirlink/secret", "filelink", "in\x00", "file:///etc/passwd", "in/../../in",
	} {
		if got, err := sums.Sum(t.Context(), path); err == nil {
			t.Errorf("path %q was read: %+v", path, got)
		}
	}
	if _, err := sums.Sum(t.Context(), "missing"); !isCancel(err) {
		t.Errorf("a missing file gives %v, want it cancelled: a retry does not bring it", err)
	}
}

func isCancel(err error) bool {
	var cancel *job.CancelError
	return errors.As(err, &cancel)
}
