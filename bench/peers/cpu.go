package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

var nan = math.NaN()

// tick is the unit of the times in /proc, in microseconds: 100 a second on every Linux.
const tick = 10_000

// cpu returns the CPU time in µs that this process and the processes of Postgres have used; NaN where there is no /proc.
func (s *servers) cpu(context.Context) (float64, error) {
	if runtime.GOOS != "linux" {
		return nan, nil
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nan, err
	}
	sum := 0.0
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may hold anything: the fields are counted from behind it.
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid := filepath.Base(filepath.Dir(name))
		switch {
		case pid == strconv.Itoa(os.Getpid()):
			sum += ticks(f[11]) + ticks(f[12])
		case pid == strconv.Itoa(s.pg.PID()):
			sum += ticks(f[11]) + ticks(f[12]) + ticks(f[13]) + ticks(f[14]) // also of backends that have ended
		case f[1] == strconv.Itoa(s.pg.PID()):
			sum += ticks(f[11]) + ticks(f[12])
		}
	}
	if sum == 0 {
		return nan, fmt.Errorf("no CPU time found in /proc")
	}
	return sum * tick, nil
}

func ticks(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}
