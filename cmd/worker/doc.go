// Command worker runs jobs with the handlers of the demo: checksum, sleep, fail and echo. It is also the pattern for a worker
// of your own: the same main, with your handlers in register.
package main
