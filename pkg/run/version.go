package run

import (
	"runtime"
	"runtime/debug"
	"strings"
)

const module = "github.com/weirq/weir"

// Version returns the version of the running program as its build recorded it: a release, or the revision of its source, with
// +dirty when that was changed; and Weir's own beside it in a program of somebody else's.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := versionOf(info)
	if info.Main.Path == module {
		return v + " " + runtime.Version()
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			v += " weir " + dep.Version
		}
	}
	return v + " " + runtime.Version()
}

// shortVersion is the program's own version alone, as it is shown beside a process.
func shortVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		return v
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return "devel"
	}
	return revision + dirty
}
