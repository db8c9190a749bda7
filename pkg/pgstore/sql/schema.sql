-- schema: the tables of version 1. Instants are of the database clock. Text limits repeat those of package job, since
-- SQL is a producer too. Fences, states and flags: see package job and live.sql's readers.

-- jobs: the log. Append-only; a job's row is written once and never updated. Partitioned by the time in the id.
CREATE TABLE weir.jobs (
  id           uuid        NOT NULL,
  enqueued_at  timestamptz NOT NULL,
  scheduled_at timestamptz,          -- as asked for; NULL: at once
  expires_at   timestamptz,
  timeout_ms   bigint,               -- NULL: the handler's; -1: none
  parent_id    uuid,
  max_attempts int         NOT NULL,
  priority     smallint    NOT NULL,
  mode         smallint    NOT NULL DEFAULT 0,
  kind         varchar(128) NOT NULL,
  queue        varchar(128) NOT NULL,
  payload      json        NOT NULL,
  backoff      varchar(64),
  keys         text[],
  tags         text[],
  metadata     json,
  trace        varchar(512),
  failure_kind varchar(128),
  key_limits   int[],                -- of each of keys, the locks; NULL: all 1
  rates        text[],               -- each 'N/PERIOD_MS/WEIGHT NAME', sorted by name
  PRIMARY KEY (id),
  -- A second line behind the client and weir.enqueue(), for what would harm others. It is short, and the other limits are
  -- lengths of types, because a CHECK is parsed anew by every statement: all limits in it cost a single enqueue 70 µs. A failure
  -- job may hold a payload of 1 MiB and what is said about it.
  CONSTRAINT jobs_limits CHECK (priority BETWEEN 1 AND 9 AND octet_length(queue) <= 128 AND octet_length(payload::text) <= 2097152)
) PARTITION BY RANGE (id);
CREATE TABLE weir.jobs_default PARTITION OF weir.jobs DEFAULT;

-- jobs_kept: log rows that outlived their partition, because their job is live or its outcome still wanted.
CREATE TABLE weir.jobs_kept (LIKE weir.jobs INCLUDING DEFAULTS, PRIMARY KEY (id));

-- live: one narrow row for each job that is not finished. state 0 available (also scheduled and retrying, with a
-- ready_at to come), 1 running, 2 blocked. flags: 1 keyed, 2 unique, 4 cancel requested, 8 timing out, 16 its unique key went to
-- a newer job while it ran: it must not wait again.
CREATE TABLE weir.live (
  ready_at     timestamptz NOT NULL,
  line_at      timestamptz,          -- place in the lines of its locks; NULL without locks
  expires_at   timestamptz,
  max_attempts int         NOT NULL,
  size         int         NOT NULL, -- bytes of payload: a claim is bounded by their sum
  priority     smallint    NOT NULL,
  mode         smallint    NOT NULL DEFAULT 0,
  id           uuid        NOT NULL PRIMARY KEY,
  queue        text        NOT NULL,
  kind         text        NOT NULL,
  keys         text[] COLLATE "C",   -- locks, sorted by bytes
  key_limits   int[],
  rates        text[],
  blocked_on   text COLLATE "C",
  fence        int         NOT NULL DEFAULT 0, -- from here on what a claim changes: its WAL record leaves out the rest
  attempt      int         NOT NULL DEFAULT 0,
  state        smallint    NOT NULL DEFAULT 0,
  flags        smallint    NOT NULL DEFAULT 0,
  crashes      smallint    NOT NULL DEFAULT 0,
  claimed_at   timestamptz,
  session      uuid                  -- of a running job; NULL otherwise. No CHECK says so: see jobs_limits
) WITH (
  fillfactor = 45,                   -- a claim writes the new version beside the old one: half the WAL of moving it to another page
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 100000,
  autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = false            -- giving pages back takes an exclusive lock
);
CREATE INDEX live_ready ON weir.live (queue, priority, ready_at, id) WHERE state = 0 AND flags & 1 = 0; -- without keys: those with keys cost its scans nothing
CREATE INDEX live_session ON weir.live (session) WHERE state = 1;
CREATE INDEX live_suspect ON weir.live (queue, ready_at) WHERE state = 0 AND crashes >= 2; -- empty but after crashes
CREATE INDEX live_expiring ON weir.live (expires_at) WHERE expires_at IS NOT NULL AND state <> 1;
CREATE INDEX live_keyed ON weir.live (queue, priority, ready_at, id) WHERE state = 0 AND flags & 1 = 1;
CREATE INDEX live_line ON weir.live ((keys[1]), line_at, id) WHERE state = 2; -- who is blocked, by key
CREATE INDEX live_next ON weir.live ((keys[1]), line_at, id) WHERE state = 0 AND keys IS NOT NULL; -- who is not: a scan of it passes no blocked ones

-- waits: the further keys of blocked jobs that have several.
CREATE TABLE weir.waits (
  key     text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 255),
  line_at timestamptz NOT NULL,
  job_id  uuid        NOT NULL,
  PRIMARY KEY (key, line_at, job_id)
);
CREATE INDEX waits_job ON weir.waits (job_id);

-- outcomes: completed jobs. Partitioned by the time of finishing.
CREATE TABLE weir.outcomes (
  finished_at timestamptz NOT NULL,
  claimed_at  timestamptz NOT NULL,
  fence       int         NOT NULL,
  attempt     int         NOT NULL,
  id          uuid        NOT NULL,
  session     uuid        NOT NULL,
  queue       text        NOT NULL,  -- the kind is in the log: a ninth column would cost every job 16 bytes
  result      json        CHECK (octet_length(result::text) <= 65536)
) PARTITION BY RANGE (finished_at);
CREATE INDEX outcomes_id ON weir.outcomes (id);
CREATE TABLE weir.outcomes_default PARTITION OF weir.outcomes DEFAULT;

-- dead: jobs that ended otherwise: state 1 discarded, 2 cancelled, 3 expired. It stands alone: all of the log row is in it.
CREATE TABLE weir.dead (
  finished_at  timestamptz NOT NULL,
  claimed_at   timestamptz,
  enqueued_at  timestamptz NOT NULL,
  scheduled_at timestamptz,
  expires_at   timestamptz,
  timeout_ms   bigint,
  fence        int         NOT NULL,
  attempt      int         NOT NULL,
  max_attempts int         NOT NULL,
  priority     smallint    NOT NULL,
  state        smallint    NOT NULL CHECK (state BETWEEN 1 AND 3),
  mode         smallint    NOT NULL,
  crashes      smallint    NOT NULL,
  id           uuid        NOT NULL,
  session      uuid,
  parent_id    uuid,
  kind         text        NOT NULL,
  queue        text        NOT NULL,
  payload      json,                 -- NULL: the log row was missing
  backoff      text,
  keys         text[],
  key_limits   int[],
  rates        text[],
  tags         text[],
  metadata     json,
  trace        text,
  failure_kind text,
  unique_key   bytea,                -- the key that it had until it ended; NULL: none
  error        text        CHECK (octet_length(error) <= 16384)
) PARTITION BY RANGE (finished_at);
CREATE INDEX dead_id ON weir.dead (id);
CREATE TABLE weir.dead_default PARTITION OF weir.dead DEFAULT;

-- attempts: one row for each attempt that failed or was interrupted.
CREATE TABLE weir.attempts (
  ended_at   timestamptz NOT NULL,
  started_at timestamptz NOT NULL,
  attempt    int         NOT NULL,
  fence      int         NOT NULL,
  job_id     uuid        NOT NULL,
  session    uuid,
  outcome    text        NOT NULL CHECK (octet_length(outcome) <= 32),
  error      text        CHECK (octet_length(error) <= 16384),
  stack      text        CHECK (octet_length(stack) <= 16384)
) PARTITION BY RANGE (ended_at);
CREATE INDEX attempts_job ON weir.attempts (job_id);
CREATE TABLE weir.attempts_default PARTITION OF weir.attempts DEFAULT;

-- sessions: one row for each start of a process, never reused. role: worker or sweeper; state: serving or draining.
CREATE TABLE weir.sessions (
  id          uuid        NOT NULL PRIMARY KEY,
  lease_until timestamptz NOT NULL,
  started_at  timestamptz NOT NULL,
  dead_at     timestamptz,           -- set once by the sweeper: what it ran is given away
  lease_ms    int         NOT NULL,
  pid         int         NOT NULL,
  slots       int         NOT NULL DEFAULT 0,
  busy        int         NOT NULL DEFAULT 0,
  role        text        NOT NULL,
  state       text        NOT NULL DEFAULT 'serving',
  host        text        NOT NULL CHECK (octet_length(host) <= 255),
  version     text        NOT NULL CHECK (octet_length(version) <= 128),
  queues      text[]      NOT NULL DEFAULT '{}',
  kinds       text[]      NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- locks: who holds a key. until NULL: a running job; else a reservation or a lingering holder. fence is that of the live
-- row, always: whoever changes the one changes the other, and holds the lock on the live row.
CREATE TABLE weir.locks (
  key    text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 255),
  slot   int  NOT NULL,
  job_id uuid NOT NULL,
  fence  int  NOT NULL,
  until  timestamptz,
  PRIMARY KEY (key, slot)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);
CREATE INDEX locks_job ON weir.locks (job_id);
CREATE INDEX locks_until ON weir.locks (until) WHERE until IS NOT NULL;

-- uniques: which job owns a unique key. key is a hash, and args one of all args, to compare.
CREATE TABLE weir.uniques (
  kind    text        NOT NULL,
  key     bytea       NOT NULL CHECK (octet_length(key) <= 32),
  slot    smallint    NOT NULL DEFAULT 0,
  job_id  uuid        NOT NULL,
  until   timestamptz,               -- NULL: while the job is live; else at least until then
  args    bytea       CHECK (octet_length(args) <= 32),
  PRIMARY KEY (kind, key, slot)
);
CREATE INDEX uniques_job ON weir.uniques (job_id);

-- queues, kinds: only those about which somebody has said something.
CREATE TABLE weir.queues (
  name      text NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
  paused_at timestamptz,
  slots     int,
  rate      int,
  rate_ms   bigint,
  owner     text,                    -- of the limits, as in limits
  granted_at timestamptz[],          -- the starts of the last rate_ms, if there is a rate: when
  granted   int[]                    -- and how many
);
CREATE INDEX queues_paused ON weir.queues (name) WHERE paused_at IS NOT NULL;
CREATE TABLE weir.kinds (
  name      text NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
  paused_at timestamptz
);
CREATE INDEX kinds_paused ON weir.kinds (name) WHERE paused_at IS NOT NULL;

-- limits: what counts before the number of a job itself: for a lock or a rate, by its name or by a prefix (stored without
-- its *), of which the longest counts.
CREATE TABLE weir.limits (
  key    text COLLATE "C" NOT NULL CHECK (octet_length(key) <= 255),
  prefix boolean NOT NULL DEFAULT false,
  rate   boolean NOT NULL DEFAULT false,
  slots  int     NOT NULL CHECK (slots >= 0), -- holders at once; of a rate: starts in per_ms
  per_ms bigint  CHECK (per_ms > 0),
  owner  text    NOT NULL DEFAULT '', -- 'config': a YAML file's; 'override': a file's too, replaced by hand
  CHECK (rate = (per_ms IS NOT NULL)),
  PRIMARY KEY (key, prefix, rate)
);

-- rate_holds: rates that nobody starts a job with until then (job.RateBackoff).
CREATE TABLE weir.rate_holds (
  key   text COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(key) <= 255),
  until timestamptz NOT NULL
);

-- reports: what handlers said of their jobs: the checkpoint that the next attempt gets, and how far the last one came.
CREATE TABLE weir.reports (
  job_id     uuid        NOT NULL PRIMARY KEY,
  fence      int         NOT NULL,   -- of the claim that said it
  at         timestamptz NOT NULL,
  checkpoint json        CHECK (octet_length(checkpoint::text) <= 65536),
  percent    smallint    CHECK (percent BETWEEN 0 AND 100),
  note       text        CHECK (octet_length(note) <= 256)
);

-- schedules: what the sweeper fires. job is what enqueue_json takes, without an id.
CREATE TABLE weir.schedules (
  name        text        NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
  owner       text        NOT NULL CHECK (octet_length(owner) BETWEEN 1 AND 128),
  fence       int         NOT NULL DEFAULT 0,    -- rises with every change but those of fire
  next_at     timestamptz,                       -- the next tick; NULL: none is to come
  enabled     boolean     NOT NULL DEFAULT true, -- as it was declared
  override    boolean,                           -- as it was set by hand; NULL: as declared
  cron        text        CHECK (octet_length(cron) <= 256),
  zone        text        NOT NULL DEFAULT '' CHECK (octet_length(zone) <= 64),
  every_ms    bigint      CHECK (every_ms >= 1000),
  misfire     text        NOT NULL CHECK (misfire IN ('once', 'skip', 'all')),
  misfire_cap int         NOT NULL CHECK (misfire_cap BETWEEN 1 AND 1000),
  job         jsonb       NOT NULL,
  last_at     timestamptz,                       -- the last tick that became a job
  last_job    uuid,
  last_error  text,                              -- why the last tick did not
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
);
CREATE INDEX schedules_due ON weir.schedules (next_at, name) WHERE coalesce(override, enabled);
CREATE INDEX schedules_owner ON weir.schedules (owner);

-- schedule_owners: the newest version of each owner that has declared its schedules.
CREATE TABLE weir.schedule_owners (
  owner     text        NOT NULL PRIMARY KEY CHECK (octet_length(owner) BETWEEN 1 AND 128),
  version   bigint      NOT NULL,
  synced_at timestamptz NOT NULL
);

-- actions: what was done by hand.
CREATE TABLE weir.actions (
  at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  who    text        NOT NULL CHECK (octet_length(who) <= 255),
  verb   text        NOT NULL CHECK (octet_length(verb) <= 32),
  target text        NOT NULL CHECK (octet_length(target) <= 1024),
  rows   bigint      NOT NULL DEFAULT 1
);
CREATE INDEX actions_at ON weir.actions (at);

-- counts: depth of each queue as the sweeper last counted it. state as in live; 3: scheduled, 4: retrying.
CREATE TABLE weir.counts (
  queue    text        NOT NULL,
  state    smallint    NOT NULL,
  jobs     bigint      NOT NULL,
  oldest   timestamptz,
  at       timestamptz NOT NULL,
  PRIMARY KEY (queue, state)
);
