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
  PRIMARY KEY (id),
  -- A second line behind the client and weir.enqueue(), for what would harm others. It is short, and the other limits are
  -- lengths of types, because a CHECK is parsed anew by every statement: all limits in it cost a single enqueue 70 µs.
  CONSTRAINT jobs_limits CHECK (priority BETWEEN 1 AND 9 AND octet_length(queue) <= 128 AND octet_length(payload::text) <= 1048576)
) PARTITION BY RANGE (id);
CREATE TABLE weir.jobs_default PARTITION OF weir.jobs DEFAULT;

-- jobs_kept: log rows that outlived their partition, because their job is live or its outcome still wanted.
CREATE TABLE weir.jobs_kept (LIKE weir.jobs INCLUDING DEFAULTS, PRIMARY KEY (id));

-- live: one narrow row for each job that is not finished. state 0 available (also scheduled and retrying, with a
-- ready_at to come), 1 running, 2 blocked. flags: 1 keyed, 2 unique, 4 cancel requested, 8 timing out.
CREATE TABLE weir.live (
  ready_at     timestamptz NOT NULL,
  line_at      timestamptz,          -- place in the line of its keys; NULL without keys
  expires_at   timestamptz,
  max_attempts int         NOT NULL,
  size         int         NOT NULL, -- bytes of payload: a claim is bounded by their sum
  priority     smallint    NOT NULL,
  mode         smallint    NOT NULL DEFAULT 0,
  id           uuid        NOT NULL PRIMARY KEY,
  queue        text        NOT NULL,
  kind         text        NOT NULL,
  keys         text[],
  blocked_on   text,
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
CREATE INDEX live_ready ON weir.live (queue, priority, ready_at, id) WHERE state = 0;
CREATE INDEX live_session ON weir.live (session) WHERE state = 1;
CREATE INDEX live_suspect ON weir.live (queue, ready_at) WHERE state = 0 AND crashes >= 2; -- empty but after crashes
CREATE INDEX live_expiring ON weir.live (expires_at) WHERE expires_at IS NOT NULL AND state <> 1;
CREATE INDEX live_line ON weir.live ((keys[1]), line_at, id) WHERE state IN (0, 2) AND keys IS NOT NULL;

-- waits: the further keys of blocked jobs that have several.
CREATE TABLE weir.waits (
  key     text        NOT NULL CHECK (octet_length(key) <= 255),
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
  tags         text[],
  metadata     json,
  trace        text,
  failure_kind text,
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

-- locks: who holds a key. until NULL: a running job; else a reservation or a lingering holder.
CREATE TABLE weir.locks (
  key    text NOT NULL CHECK (octet_length(key) <= 255),
  slot   int  NOT NULL,
  job_id uuid NOT NULL,
  fence  int  NOT NULL,
  until  timestamptz,
  PRIMARY KEY (key, slot)
);
CREATE INDEX locks_job ON weir.locks (job_id);

-- uniques: which live job owns a unique key.
CREATE TABLE weir.uniques (
  kind    text        NOT NULL,
  key     bytea       NOT NULL CHECK (octet_length(key) <= 32),
  slot    smallint    NOT NULL DEFAULT 0,
  job_id  uuid        NOT NULL,
  until   timestamptz,               -- NULL: while the job is live
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
  owner     text
);
CREATE INDEX queues_paused ON weir.queues (name) WHERE paused_at IS NOT NULL;
CREATE TABLE weir.kinds (
  name      text NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
  paused_at timestamptz
);
CREATE INDEX kinds_paused ON weir.kinds (name) WHERE paused_at IS NOT NULL;

-- limits: of a key, or of a prefix ending in *.
CREATE TABLE weir.limits (
  key   text NOT NULL PRIMARY KEY CHECK (octet_length(key) <= 255),
  slots int  NOT NULL CHECK (slots >= 0),
  owner text
);

-- schedules: what the sweeper fires.
CREATE TABLE weir.schedules (
  name       text        NOT NULL PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 128),
  owner      text        NOT NULL,
  version    bigint      NOT NULL DEFAULT 0,
  next_at    timestamptz,
  enabled    boolean     NOT NULL DEFAULT true,
  definition json        NOT NULL
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
