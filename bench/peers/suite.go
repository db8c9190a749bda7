package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"
)

// suite runs cases.
type suite struct {
	s      *servers
	rounds int
	round  time.Duration // the time of a round of a case, shared by its peers
	scale  float64       // of the sizes of the large cases
	out    *output
}

// benchCase is one comparison.
type benchCase struct {
	name  string
	about string
	quick bool
	run   func(ctx context.Context, s *suite, name string) error
}

// measure is one window on one peer. It returns a value for each figure of the case.
type measure func(ctx context.Context, a arena, window time.Duration) ([]float64, error)

// figure is what a case reports: its name is the case's and suffix.
type figure struct {
	suffix string
	unit   string
}

// compare measures the peers in turns, Weir first in even rounds and last in odd ones, and reports the medians.
func (s *suite) compare(ctx context.Context, name string, figures []figure, peers []peer, f measure) error {
	window := s.round / time.Duration(len(peers))
	arenas := make([]arena, len(peers))
	for i, p := range peers {
		a, err := p.open(ctx, s.s)
		if err != nil {
			return fmt.Errorf("%s: open %s: %w", name, p.name(), err)
		}
		defer a.close()
		arenas[i] = a
	}
	values := make([][][]float64, len(peers)) // by peer, figure and round
	for i := range values {
		values[i] = make([][]float64, len(figures))
	}
	order := make([]int, len(peers))
	for i := range order {
		order[i] = i
	}
	for range s.rounds {
		for _, i := range order {
			if err := s.s.settle(ctx); err != nil {
				return err
			}
			got, err := f(ctx, arenas[i], window)
			if err == nil {
				err = arenas[i].clear(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, peers[i].name(), err)
			}
			for k, v := range got {
				values[i][k] = append(values[i][k], v)
			}
		}
		slices.Reverse(order)
	}
	for k, fig := range figures {
		ours := median(values[0][k])
		for i := 1; i < len(peers); i++ {
			s.out.line(line{
				Case: name + fig.suffix, Peer: peers[i].name(), Ours: ours, Theirs: median(values[i][k]), Unit: fig.unit,
				OursRounds: values[0][k], TheirsRounds: values[i][k],
			})
		}
		if len(peers) == 1 {
			s.out.line(line{Case: name + fig.suffix, Peer: "self", Ours: ours, Theirs: math.NaN(), Unit: fig.unit, OursRounds: values[0][k]})
		}
	}
	return nil
}

// one makes a measure of one figure of f.
func one(f func(ctx context.Context, a arena, window time.Duration) (float64, error)) measure {
	return func(ctx context.Context, a arena, window time.Duration) ([]float64, error) {
		v, err := f(ctx, a, window)
		return []float64{v}, err
	}
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the q-quantile by the nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// note tells what goes on, on the other stream than the figures.
func note(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
