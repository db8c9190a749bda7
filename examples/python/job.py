"""Finds the primes below a number. The payload comes on standard input, what is printed to standard output is the result."""

import json
import os
import signal
import sys


def stop(signum, frame):
    """SIGTERM comes at the job's timeout, when it is cancelled or when the worker closes; SIGKILL half a second later."""
    print("stopped", file=sys.stderr)
    sys.exit(75)  # try again later; no attempt is used


def primes(below):
    sieve = [True] * max(below, 2)
    sieve[0] = sieve[1] = False
    for n in range(2, int(below**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = [False] * len(sieve[n * n :: n])
    return [n for n, prime in enumerate(sieve[:below]) if prime]


def main():
    signal.signal(signal.SIGTERM, stop)
    below = json.load(sys.stdin)["below"]
    if not isinstance(below, int):
        raise ValueError("below is not a number")  # the last line of the traceback is the error, its tail the stack
    print("attempt", os.environ["WEIR_JOB_ATTEMPT"], "of", os.environ["WEIR_JOB_KIND"], file=sys.stderr)  # to the worker's log
    json.dump({"primes": primes(below)}, sys.stdout)


main()
