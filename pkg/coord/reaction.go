package coord

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// reaction says what an error code of Redis means here.
type reaction struct {
	code   string
	counts bool   // towards the breaker: the server cannot serve us now
	shed   bool   // connections lead to a server that is no longer the primary: drop them
	advice string // for the log, when it opens the breaker
}

// reactions is the whole table. A code that is not in it (a bug in a script, a wrong type) is returned to the caller and
// does not count: the server is there, and waiting would not mend it.
var reactions = []reaction{
	{code: "READONLY", counts: true, shed: true, advice: "this server became a replica; connections are dropped and dialled anew"},
	{code: "LOADING", counts: true, advice: "the server reads its data set from disk"},
	{code: "MASTERDOWN", counts: true, advice: "a replica without its primary answers"},
	{code: "NOREPLICAS", counts: true, advice: "min-replicas-to-write is not met"},
	{code: "MISCONF", counts: true, advice: "the server cannot save its data to disk and refuses writes"},
	{code: "BUSY", counts: true, advice: "someone's script blocks the server"},
	{code: "CLUSTERDOWN", counts: true, advice: "part of the cluster's slots is not served"},
	{code: "TRYAGAIN", counts: true, advice: "the slot is being moved"},
	// A cluster client follows these by itself, so whoever sees one is a client for a single server.
	{code: "MOVED", counts: true, advice: "the server belongs to a cluster: use a cluster client"},
	{code: "ASK", counts: true, advice: "the server belongs to a cluster: use a cluster client"},
	{code: "CROSSSLOT", counts: true, advice: "keys do not share a slot"},
	{code: "NOAUTH", counts: true, advice: "a user or password is missing"},
	{code: "WRONGPASS", counts: true, advice: "user or password is wrong"},
	{code: "NOPERM", counts: true, advice: "the user may not run our commands, or not on our keys or channels"},
	{code: "ERR max number of clients reached", counts: true, advice: "maxclients is reached"},
	// Out of memory Redis refuses what adds data (register), not what removes and publishes (wake): hints still flow to
	// all who stand in the idle sets, so the breaker must not stop them.
	{code: "OOM"},
	// Script.Run has already sent the source again; should it be answered so once more, the next call repairs it.
	{code: "NOSCRIPT"},
}

// react finds the reaction to an error of a command; known is false for one that is not an answer of Redis.
func react(err error) (r reaction, known bool) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return reaction{counts: true}, false
	}
	text := reply.Error() + " " // so that BUSY is not found in BUSYGROUP
	for _, r := range reactions {
		// Redis 6 wraps what a command in a script was told: "ERR Error running script …: -READONLY You can't …".
		if strings.HasPrefix(text, r.code+" ") || strings.Contains(text, "-"+r.code+" ") {
			return r, true
		}
	}
	return reaction{code: "other"}, true
}
