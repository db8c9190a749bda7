//go:build unix

package chaos_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/weirq/weir/internal/testenv"
)

var long = flag.Bool("long", os.Getenv("WEIR_TEST_LONG") == "1", "run the faults at full length: the promises' own numbers")

// atOnce is how many tests run at the same time, unless -parallel says otherwise. Most of their time is waiting, but each
// has servers and processes of its own, and many of them bound how long something takes.
const atOnce = "4"

// TestMain is also the main function of the processes under test: see child_test.go.
func TestMain(m *testing.M) {
	if text := os.Getenv(specVariable); text != "" {
		os.Exit(runChild(text))
	}
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	if !*long {
		if err := measureSpeed(); err != nil {
			panic(err)
		}
	}
	testenv.Main(m)
}

// pick returns the first value in the short form, the second with -long.
func pick[T any](short, full T) T {
	if *long {
		return full
	}
	return short
}

// sweepEvery is the default of the duty recover.
const sweepEvery = time.Second

// lease is that of all processes, unless a test says otherwise.
func lease() time.Duration { return pick(4*time.Second, 15*time.Second) }

// crowd is what a bound has on top in the short form, whose tests run side by side on whatever machine there is: 4 s on the
// usual one, more on a slower one. The promises' own numbers are those of -long.
func crowd() time.Duration { return time.Duration(pick(4*slower, 0) * float64(time.Second)) }
