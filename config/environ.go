package config

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const envPrefix = "WEIR_"

// envConfig names the file; it is not a setting itself.
const envConfig = "WEIR_CONFIG"

// envForeign are the beginnings of variables that are not settings: tests, the jobs of command handlers, the demo.
var envForeign = []string{"WEIR_TEST_", "WEIR_JOB_", "WEIR_DEMO_"}

// envService matches what Kubernetes puts into every container for a service whose name begins with weir. Without this a service named
// weir-sweeper would stop every worker of its namespace.
var envService = regexp.MustCompile(
	`^WEIR_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$`)

// environ is the WEIR_ part of an environment, without what is set to the empty string.
type environ map[string]string

// environFrom reads lines of the form name=value; of two with one name the last counts, as for os/exec.
func environFrom(lines []string) environ {
	e := environ{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name) // names are equal there whatever their case
		}
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		if value == "" {
			delete(e, name)
			continue
		}
		e[name] = value
	}
	return e
}

// layer reads every variable as a setting.
func (e environ) layer() *layer {
	y := newLayer()
	names := make([]string, 0, len(e))
	for name := range e {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		l := known().byEnv[name]
		if l == nil {
			if !foreign(name) {
				y.fault(showName(name), "", "no such setting"+didYouMean(nearestEnv(name)))
			}
			continue
		}
		v, problem := l.fromText(e[name])
		y.set(l, name, v, problem)
	}
	y.pair()
	return y
}

func foreign(name string) bool {
	if name == envConfig || envService.MatchString(name) {
		return true
	}
	return slices.ContainsFunc(envForeign, func(p string) bool { return strings.HasPrefix(name, p) })
}

// nearestEnv compares without the prefix, which would make short names look alike.
func nearestEnv(name string) string {
	rest := make([]string, 0, len(known().envs)+1)
	for _, env := range append(slices.Clone(known().envs), envConfig) {
		rest = append(rest, strings.TrimPrefix(env, envPrefix))
	}
	if n := Nearest(strings.TrimPrefix(name, envPrefix), rest); n != "" {
		return envPrefix + n
	}
	key := strings.ToLower(strings.TrimPrefix(name, envPrefix))
	if l := known().byKey[known().nearest(key)]; l != nil {
		return l.env // WEIR_LEASE: the section was left out
	}
	return ""
}

func showName(name string) string {
	if plainKey.MatchString(name) {
		return name
	}
	return "a variable " + envPrefix + "… (name not shown)"
}
