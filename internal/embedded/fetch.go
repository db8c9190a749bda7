package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// fetchedVersion is the release that fetchPostgres asks for; fetchedMajor is its major version.
const (
	fetchedVersion = embeddedpostgres.V16
	fetchedMajor   = 16
)

// fetchPostgres downloads pinned binaries (about 10 MB, checked against their published SHA-256) into a cache and
// returns them; the next call finds them there. The library knows no context: when ctx ends, its download is left
// behind to end by itself.
//
// The project's own checks run without a network and have not executed a download: on a machine where neither PATH
// nor the usual directories have Postgres, this is the path that is least proven.
func fetchPostgres(ctx context.Context, as *account, log io.Writer) (binaries, error) {
	cache, err := cacheDir()
	if err != nil {
		return binaries{}, err
	}
	home := filepath.Join(cache, "postgres-"+string(fetchedVersion))
	b := binaries{dir: filepath.Join(home, "bin"), major: fetchedMajor}
	if _, err := look(b.dir, as); err == nil {
		return b, nil
	}
	if log != nil {
		fmt.Fprintf(log, "fetching Postgres %s into %s\n", fetchedVersion, cache)
	}
	scratch, err := os.MkdirTemp(cache, "fetch-*")
	if err != nil {
		return binaries{}, fmt.Errorf("make a directory to fetch to: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return binaries{}, err
	}
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().Version(fetchedVersion).Port(uint32(port)).
		CachePath(cache).BinariesPath(home).RuntimePath(scratch).Logger(io.Discard))
	done := make(chan error, 1)
	go func() {
		// It can only fetch and start together. Its own start fails as root, after the binaries are there; so what
		// counts is whether they are.
		err := server.Start()
		if err == nil {
			err = server.Stop()
		}
		done <- errors.Join(err, os.RemoveAll(scratch))
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return binaries{}, fmt.Errorf("fetch Postgres %s: %w", fetchedVersion, context.Cause(ctx))
	}
	if _, missing := look(b.dir, as); missing != nil {
		if err == nil {
			err = missing
		}
		return binaries{}, fmt.Errorf("fetch Postgres %s: %w", fetchedVersion, err)
	}
	return b, nil
}

// cacheDir is where fetched binaries stay. For root it must be a place that another user may enter and only root may
// write: neither root's home nor a shared temporary directory is both.
func cacheDir() (string, error) {
	dir := "/var/cache/weir"
	if os.Geteuid() != 0 {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache directory: %w", err)
		}
		dir = filepath.Join(user, "weir")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make a cache directory: %w", err)
	}
	return dir, nil
}
