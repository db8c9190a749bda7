package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

const loopback = "127.0.0.1"

// portTries is how often a server is started anew when its port was taken in the meantime.
const portTries = 6

// freePort returns a loopback port that nothing listens on now, from below the ranges that systems take for outgoing
// connections (32768 up on Linux, 49152 elsewhere). From inside them, a client that dials a killed server's port
// could get that very port as its own end and connect to itself, and the server could not bind it again.
func freePort() (int, error) {
	for range 100 {
		port := 15000 + rand.IntN(17000)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("close port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, errors.New("find a free port between 15000 and 32000 on 127.0.0.1: a hundred were taken")
}

// withPort calls start with fixed or, when that is 0, with random free ports until one was not taken meanwhile.
func withPort(fixed int, start func(port int) error) error {
	if fixed != 0 {
		return start(fixed)
	}
	var err error
	for range portTries {
		port, e := freePort()
		if e != nil {
			return e
		}
		if err = start(port); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// taken adds errPortTaken to the error of a bind that failed for it.
func taken(err error) error {
	if strings.Contains(err.Error(), "address already in use") || strings.Contains(err.Error(), "Only one usage") {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}
