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
	Log      Log      `mapstructure:"log"`
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
	// DutiesOff are the duties that this sweeper leaves to others.
	DutiesOff []string `mapstructure:"duties_off" oneof:"recover|wake|expire|rotate|uniques|sessions|stragglers|counts"`
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

// Log says what a process writes about itself.
type Log struct {
	// Level is the least level written: debug, info, warn or error.
	Level string `mapstructure:"level" default:"info" oneof:"debug|info|warn|error"`
	// Format is text or json.
	Format string `mapstructure:"format" default:"text" oneof:"text|json"`
}
