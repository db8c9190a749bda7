package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type flags struct {
	quick, json, list, check bool
	cases                    string
	rounds                   int
	scale                    float64
}

func parse() (f flags) {
	flag.BoolVar(&f.quick, "quick", false, "the cases that matter most, 3 s a round: about 90 s in all")
	flag.BoolVar(&f.json, "json", false, "a JSON object a line: case, peer, ours, theirs, unit, ratio")
	flag.BoolVar(&f.list, "list", false, "list the cases and end")
	flag.BoolVar(&f.check, "check", false, "exit code 1 if a ratio misses the project's target")
	flag.StringVar(&f.cases, "case", "", "cases to run, by name, with commas; default: all, or those of --quick")
	flag.IntVar(&f.rounds, "rounds", 3, "rounds of each case, of which the medians are reported")
	flag.Float64Var(&f.scale, "scale", 1, "size of the large cases; 1: as they are named")
	flag.Parse()
	return f
}

func run() error {
	f := parse()
	chosen, err := choose(f)
	if err != nil {
		return err
	}
	if f.list {
		for _, c := range chosen {
			fmt.Printf("%-27s %s\n", c.name, c.about)
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers, err := start(ctx)
	if err != nil {
		return err
	}
	defer servers.close()
	note("%s", strings.Join(servers.info, "; "))
	s := &suite{s: servers, rounds: f.rounds, round: 20 * time.Second, scale: f.scale, out: &output{w: os.Stdout, json: f.json}}
	if f.quick {
		s.round = 3 * time.Second
	}
	if !f.json {
		fmt.Printf("%-27s %-11s %10s %10s %-8s %7s\n", "case", "peer", "ours", "theirs", "unit", "ratio")
	}
	for _, c := range chosen {
		if err := c.run(ctx, s, c.name); err != nil {
			return err
		}
	}
	name, err := s.out.save(filepath.Join("..", "results"), servers.info, os.Args[1:])
	if err != nil {
		return err
	}
	note("the rounds are in %s", filepath.Join("bench", "results", filepath.Base(name)))
	return missed(s.out.lines, f.check)
}

// missed reports the lines that miss their target.
func missed(lines []line, check bool) error {
	n := 0
	for _, l := range lines {
		if want, ok := target(l); !ok {
			n++
			note("%s against %s: ratio %.2f, want %s", l.Case, l.Peer, l.Ratio, want)
		}
	}
	if n > 0 && check {
		return fmt.Errorf("%d figures miss their target", n)
	}
	return nil
}

func choose(f flags) ([]benchCase, error) {
	var names []string
	if f.cases != "" {
		names = strings.Split(f.cases, ",")
	}
	all := cases()
	var chosen []benchCase
	for _, c := range all {
		if slices.Contains(names, c.name) || len(names) == 0 && (c.quick || !f.quick) {
			chosen = append(chosen, c)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c benchCase) bool { return c.name == name }) {
			return nil, fmt.Errorf("no case %q: see --list", name)
		}
	}
	return chosen, nil
}
