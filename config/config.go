package config

import "time"

// Config is the whole configuration of a Weir process. Every field that is not a struct is one setting; its tags hold the name of
// the key, its default and its limits. Load fills all of them, so a zero here is a value and never means "not said".
type Config struct {
	// Namespace is the Postgres schema and the prefix of every Redis key: [a-z][a-z0-9_]{0,30}.
	Namespace string `mapstructure:"namespace" default:"weir" form:"namespace"`
	// Environment is stored in the schema by its first migration; a process that says another word refuses to start. Empty means: not checked.
	Environment string `mapstructure:"environment" form:"word"`

	Postgres Postgres `mapstructure:"postgres"`
	Redis    Redis    `mapstructure:"redis"`
	Timing   Timing   `mapstructure:"timing"`
	Worker   Worker   `mapstructure:"worker"`
	Sweeper  Sweeper  `mapstructure:"sweeper"`
	// Limits are the limits of keys that this file owns: a sweeper writes them to the database when it starts, and takes away those that it
	// once wrote and that are not in the list any more. When the key is left out it touches none.
	Limits []Limit `mapstructure:"limits"`
	// Queues are the limits of queues for the whole fleet that this file owns, in the same way.
	Queues []QueueLimit `mapstructure:"queues"`
	Log    Log          `mapstructure:"log"`
	Trace  Trace        `mapstructure:"trace"`
}

// Postgres says how to reach the database, the only authority.
type Postgres struct {
	// URL is a connection string in URL or key=value form. Empty means: not set; see [Loaded.Require].
	URL Secret `mapstructure:"url" form:"postgres"`
	// URLFile is the file that URL was read from. Empty means that URL was given itself, or not at all.
	URLFile string `mapstructure:"url_file" form:"path"`
	// Pooler is what stands between: none (also for a session pooler) or transaction (PgBouncer in transaction mode).
	Pooler string `mapstructure:"pooler" default:"none" oneof:"none|transaction"`
	// LeaseURL is the connection string for lease renewals, which may pass the pooler by. Empty means URL.
	LeaseURL Secret `mapstructure:"lease_url" form:"postgres"`
	// LeaseURLFile is the file that LeaseURL was read from.
	LeaseURLFile string `mapstructure:"lease_url_file" form:"path"`
	// MaxConns is the most connections of the pool that enqueues and handlers share, and of which a sweeper uses up to three. A
	// worker opens four more for itself (three for claims and results, one for renewals).
	MaxConns int `mapstructure:"max_conns" default:"4" min:"2" max:"1000"`
	// ConnectTimeout is how long one attempt to connect may take.
	ConnectTimeout time.Duration `mapstructure:"connect_timeout" default:"5s" min:"100ms" max:"5m"`
	// StatementTimeout is how long one of Weir's own statements may take.
	StatementTimeout time.Duration `mapstructure:"statement_timeout" default:"10s" min:"100ms" max:"10m"`
	// Schema is what a process does about the schema at its start: check its version, migrate it, or off.
	Schema string `mapstructure:"schema" default:"check" oneof:"check|migrate|off"`
}

// Redis says how to reach the hint bus. Without it everything works from Postgres alone.
type Redis struct {
	// URL is a redis://, rediss:// or unix:// URL. Empty means no Redis.
	URL Secret `mapstructure:"url" form:"redis"`
	// URLFile is the file that URL was read from. Empty means that URL was given itself, or not at all.
	URLFile string `mapstructure:"url_file" form:"path"`
	// Mode is how URL is read: auto (sentinel with master_name=, cluster with addr=, else single), single, sentinel, cluster, or off.
	Mode string `mapstructure:"mode" default:"auto" oneof:"auto|single|sentinel|cluster|off"`
	// Timeout is how long one call may take before Weir goes on without it.
	Timeout time.Duration `mapstructure:"timeout" default:"100ms" min:"1ms" max:"5s"`
	TLS     TLS           `mapstructure:"tls"`
}

// TLS says whom a connection trusts.
type TLS struct {
	// CAFile is a PEM file with the authorities to trust, for a rediss:// URL. Empty means the system's.
	CAFile string `mapstructure:"ca_file" form:"path"`
}

// Timing holds the clocks of the protocol. All workers and sweepers of a namespace should agree on them.
type Timing struct {
	// Lease is how long a silent process keeps its jobs before the sweeper gives them to another (database clock).
	Lease time.Duration `mapstructure:"lease" default:"15s" min:"3s" max:"10m"`
	// Renew is how often a process renews its lease (local monotonic clock); at most a third of Lease.
	Renew time.Duration `mapstructure:"renew" default:"auto" min:"100ms" max:"3m" auto:"timing.lease / 5"`
	// Poll is how often an idle worker asks without a hint. Zero means: 30s while a sweeper and Redis are up, else 5s.
	Poll time.Duration `mapstructure:"poll" default:"auto" min:"100ms" max:"10m" auto:"30s with a sweeper, 5s without"`
	// Recover is how often the sweeper looks for sessions whose lease has ended; at most Lease.
	Recover time.Duration `mapstructure:"recover" default:"1s" min:"100ms" max:"1m"`
	// ResultRetryFor is how long a worker tries to write a result that Postgres does not take.
	ResultRetryFor time.Duration `mapstructure:"result_retry_for" default:"10m" min:"1s" max:"24h"`
	// Expire is how often the sweeper looks for jobs past their expiry.
	Expire time.Duration `mapstructure:"expire" default:"5s" min:"100ms" max:"1h"`
	// MissingPayloadGrace is how long a job whose payload is missing is put off before it is discarded.
	MissingPayloadGrace time.Duration `mapstructure:"missing_payload_grace" default:"1m" min:"1s" max:"24h"`
}

// Worker configures a process that runs jobs.
type Worker struct {
	// Concurrency is the most jobs that the process runs at once, all queues together. By default: the sum of their slots.
	Concurrency int `mapstructure:"concurrency" default:"auto" min:"1" max:"100000" auto:"the slots of worker.queues"`
	// Queues are the queues that the process serves, in the order given.
	Queues []Queue `mapstructure:"queues" default:"default=50"`
	// Grace is how long handlers may go on after the first signal before they are cancelled. Zero means: cancelled at once.
	Grace time.Duration `mapstructure:"grace" default:"30s" min:"0s" max:"24h"`
	// ExitsBy is when, after the first signal, the process is surely gone (terminationGracePeriodSeconds); longer than Grace. What has not
	// returned by then is released to run elsewhere only after it. By default: Grace + Lease.
	ExitsBy time.Duration `mapstructure:"exits_by" default:"auto" min:"1s" max:"48h" auto:"worker.grace + timing.lease"`
	// Abandon leaves handlers that ignore their cancellation to the end of the lease instead of releasing their jobs.
	Abandon bool `mapstructure:"abandon" default:"false"`
	// Modes are the execution modes that the process accepts: inline, forked, spawned. Empty means all.
	Modes    []string `mapstructure:"modes" oneof:"inline|forked|spawned"`
	Children Children `mapstructure:"children"`
	// Handlers are programs and HTTP servers that run jobs.
	Handlers []Handler `mapstructure:"handlers"`
	// HTTP listens on 127.0.0.1:9465 by default.
	HTTP HTTP `mapstructure:"http" default:"127.0.0.1:9465"`
}

// Queue is one queue that a worker serves.
type Queue struct {
	// Name is the queue's name, byte for byte.
	Name string
	// Slots is the most jobs of this queue that the process runs at once.
	Slots int
	// Weight is the queue's share when Worker.Concurrency binds, relative to the others'. Load makes it 1 when it is not said.
	Weight int
	// Modes are the execution modes in which the process runs the queue's jobs. Nil means those of the worker.
	Modes []string
}

// Bytes is a size.
type Bytes int64

// Children tunes the child processes of a worker.
type Children struct {
	// Count is the most forked children, each of which runs one job at a time.
	Count int `mapstructure:"count" default:"auto" min:"1" max:"1000" auto:"one for each processor"`
	// MaxJobs is how many jobs a forked child runs before it is replaced.
	MaxJobs int `mapstructure:"max_jobs" default:"1000" min:"1" max:"1000000000"`
	// MaxRSS is how much memory a child and what it started may hold resident; above it they are killed.
	MaxRSS Bytes `mapstructure:"max_rss" default:"512MiB" min:"16MiB" max:"1024GiB"`
	// MaxAge is how long a forked child lives.
	MaxAge time.Duration `mapstructure:"max_age" default:"1h" min:"1s" max:"30d"`
	// Env names variables that children see beside PATH, HOME, LANG, TZ and their kind.
	Env []string `mapstructure:"env" form:"variables"`
}

// Handler runs the jobs of a kind: a program, or an HTTP server.
type Handler struct {
	// Kind is the kind of the jobs.
	Kind string
	// Command is a program and its arguments. Nil means a webhook.
	Command []string
	// Webhook is the URL to which jobs are posted. Empty means a command.
	Webhook string
	// Dir is where the command runs; relative to the folder of the file, which it is by default.
	Dir string
	// Env is added to the command's environment: NAME=value, or NAME to pass on the worker's.
	Env []string
	// TokenFile holds the bearer token that is sent to the webhook. Empty means none.
	TokenFile string
	// Timeout is how long an attempt may run. Zero means the worker's.
	Timeout time.Duration
	// RetryAfter is how long a job is put off that asks to be tried later. Zero means 1m.
	RetryAfter time.Duration
	// Slots is the most jobs of the kind that the process runs at once. Zero means as many as the queues allow.
	Slots int
	// MaxRSS is as in Children. Zero means that.
	MaxRSS Bytes
}

// Limit is how many jobs may hold a key at once, or start with it in a window. It counts before what the jobs say themselves.
type Limit struct {
	// Name is the key's name, byte for byte; of a prefix, without its star.
	Name string
	// Prefix says that the entry is for all keys whose names begin with Name. The entry of the key itself, else the longest prefix, counts.
	Prefix bool
	// Rate says that it is about rates; else it is about locks.
	Rate bool
	// Limit is how many jobs hold the key at once, where zero lets none start; of a rate, how many start in a window.
	Limit int
	// Per is a rate's window.
	Per time.Duration
}

// QueueLimit is what all workers together may do with a queue.
type QueueLimit struct {
	// Name is the queue's name, byte for byte.
	Name string
	// Limit is how many of its jobs run at once. Zero means any number.
	Limit int
	// Rate is how many of its jobs start in a window of Per. Zero means any number.
	Rate int
	// Per is Rate's window.
	Per time.Duration
}

// HTTP is a listener for /livez, /readyz and /metrics: no job data and no login.
type HTTP struct {
	// Listen is host:port; port 0 takes a free one. Empty means off (written off). By default it is on loopback: what is served there
	// asks for no login, so opening it to a network is a decision of whoever writes the file.
	Listen string `mapstructure:"listen" form:"listen"`
}

// Sweeper configures a process that recovers, wakes, expires and rotates.
type Sweeper struct {
	// HTTP listens on 127.0.0.1:9466 by default.
	HTTP       HTTP       `mapstructure:"http" default:"127.0.0.1:9466"`
	Retention  Retention  `mapstructure:"retention"`
	Partitions Partitions `mapstructure:"partitions"`
	// Schedules are the schedules that this file owns, under the owner "config": a sweeper declares them when it starts, and removes those that it
	// once declared and that are not in the list any more. When the key is left out it touches none.
	Schedules []Schedule `mapstructure:"schedules"`
	// DutiesOff are the duties that this sweeper leaves to others.
	DutiesOff []string `mapstructure:"duties_off" oneof:"recover|wake|fire|unblock|reconcile|expire|rotate|uniques|reports|sessions|stragglers|counts"`
}

// Retention is how long ended jobs can be looked up (database clock).
type Retention struct {
	// Completed is for jobs that completed.
	Completed time.Duration `mapstructure:"completed" default:"24h" min:"10s" max:"3650d"`
	// Dead is for jobs that were discarded, cancelled or expired.
	Dead time.Duration `mapstructure:"dead" default:"14d" min:"10s" max:"3650d"`
}

// Partitions is how the log of jobs is cut.
type Partitions struct {
	// Every is the span of one partition: day, hour, or minute (for tests).
	Every string `mapstructure:"every" default:"day" oneof:"day|hour|minute"`
	// Ahead is how many partitions are made in advance.
	Ahead int `mapstructure:"ahead" default:"2" min:"1" max:"100"`
}

// Trace says whether a process makes OpenTelemetry spans of what it does.
type Trace struct {
	// Enabled sends them to the program's own provider, that of otel.SetTracerProvider: exporter, sampling and what else
	// belongs to one are its business. Without one there are none.
	Enabled bool `mapstructure:"enabled" default:"false"`
}

// Log says what a process writes about itself.
type Log struct {
	// Level is the least level written: debug, info, warn or error.
	Level string `mapstructure:"level" default:"info" oneof:"debug|info|warn|error"`
	// Format is text or json.
	Format string `mapstructure:"format" default:"text" oneof:"text|json"`
}
