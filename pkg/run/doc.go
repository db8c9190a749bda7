// Package run is a user's whole main: flags, configuration, log, signals, health checks and metrics around a worker or a
// sweeper.
//
//	func main() { run.Worker(register) }
//
//	func register(w *worker.Worker, c *client.Client) error {
//		m := &Mailer{Queue: c}
//		worker.Handle(w, m.Welcome)
//		return nil
//	}
//
// Settings come from a YAML file (--config FILE or WEIR_CONFIG) and from WEIR_ variables; see package config. A program that
// has a main of its own takes the parts instead: Open for a client, AwaitSchema, NewLogger, Explain.
//
// # Start and end
//
// A configuration that is not right ends the process before it connects to anything. A database that is away does not: the
// process stays up, says so in the log and on /readyz, and begins when the database comes. Without Redis it works all the
// same.
//
// The first SIGTERM or SIGINT closes gracefully: nothing new is started, running handlers get worker.grace, then their
// contexts end, and what they did not finish is given back. The second signal ends the process at once: what it held runs
// elsewhere when its lease ends.
//
//	0    closed
//	1    failed: the log's last line says why
//	2    wrong flags or configuration; nothing was connected
//	130  ended at once by a second SIGINT
//	143  ended at once by a second SIGTERM
//
// # HTTP
//
// worker.http.listen and sweeper.http.listen serve three routes, without login and without any job's data. Anything else is
// 404.
//
//	/livez    200 while the process' loops turn, 503 and the reason otherwise. It asks neither Postgres nor Redis: that one of
//	          them is away is no reason to restart a worker whose handlers go on.
//	/readyz   200 while the database answers, 503 and the reason otherwise, also while starting and closing. Redis is
//	          mentioned and does not count.
//	/metrics  Prometheus; docs/metrics.md lists all names
package run
