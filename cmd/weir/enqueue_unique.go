package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirq/weir/pkg/job"
)

// uniqueFlags make a job the only one of its kind.
type uniqueFlags struct {
	key, while, conflict string
	byArgs, same         bool
	window               duration
	given                func(name string) bool
}

func (f *uniqueFlags) on(flags *pflag.FlagSet) {
	f.given = flags.Changed
	flags.StringVar(&f.key, "unique", "", "the only job of its kind with this `KEY`")
	flags.BoolVar(&f.byArgs, "unique-args", false, "the only job of its kind with this payload")
	flags.Var(&f.window, "unique-for", "… at least for so long, whatever becomes of it")
	flags.StringVar(&f.while, "unique-while", "live", "what counts: live or waiting")
	flags.StringVar(&f.conflict, "on-conflict", "keep", "keep it, replace it or fail")
	flags.BoolVar(&f.same, "same-args", false, "fail if the one there has another payload")
}

func (f *uniqueFlags) option() (u job.Unique, err error) {
	while, ok := map[string]job.While{"live": job.Live, "waiting": job.Waiting}[f.while]
	if !ok {
		return u, usageError{fmt.Errorf("--unique-while is %q, want live or waiting", f.while)}
	}
	conflict, ok := map[string]job.Conflict{"keep": job.Keep, "replace": job.Replace, "fail": job.Fail}[f.conflict]
	if !ok {
		return u, usageError{fmt.Errorf("--on-conflict is %q, want keep, replace or fail", f.conflict)}
	}
	switch {
	case f.key == "" && f.given("unique"): // an empty variable of a script would let any number of jobs in
		return u, usageError{errors.New("--unique is empty, want a key")}
	case f.key != "" && f.byArgs:
		return u, usageError{errors.New("--unique and --unique-args are two keys, want one of them")}
	case f.key != "" || f.byArgs:
	case f.window != 0 || while != job.Live || conflict != job.Keep || f.same:
		return u, usageError{errors.New("without a key there is nothing to compare, want --unique or --unique-args too")}
	}
	return job.Unique{Key: f.key, ByArgs: f.byArgs, For: time.Duration(f.window), While: while, OnConflict: conflict, SameArgs: f.same}, nil
}
