// Package child starts processes that a worker can be sure to get rid of, and speaks with those that run its own program.
//
// All children of a worker are started by one process beside it, the supervisor: the worker's own program under the
// environment variable WEIR_CHILD=supervisor. A child is the supervisor's, not the worker's, for three reasons. On Linux
// the supervisor is a subreaper: a process that a job left behind, even one that made a session of its own, becomes the
// supervisor's child when its parent dies, so it can be found and killed; a worker cannot be one, since it would have to
// reap children that a user's handler started itself. The supervisor reads a pipe whose end means that the worker is gone,
// and then kills everything, a program that knows nothing of Weir included. And it starts children from one thread that
// lives as long as it does: PR_SET_PDEATHSIG follows the thread that forked, and in a worker that may end at any time.
//
//	l := &child.Launcher{}
//	p, err := l.Start(child.Spec{Path: "/usr/bin/python3", Args: []string{"python3", "job.py"}, …})
//	p.Kill()    // SIGKILL for its whole process group
//	<-p.Done()
//	p.Exit()    // how it ended
//
// A Launcher passes descriptors by SCM_RIGHTS, so output and results go past the supervisor. When a child ends, its group is
// killed before it is reaped: until then its id cannot be another's.
//
// Conn carries frames between a worker and a child of its own program; Output keeps the tail of what a child prints.
package child
