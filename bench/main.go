package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() { os.Exit(run(os.Args[1:])) }

// run starts the comparison with the given flags and returns its exit code. An interrupt reaches it from the terminal.
func run(args []string) int {
	dir := filepath.Join("bench", "peers")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		fmt.Fprintln(os.Stderr, "bench: no bench/peers here: run `go run ./bench` in the folder of the repository")
		return 2
	}
	cmd := exec.Command("go", append([]string{"run", "-C", dir, "."}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
