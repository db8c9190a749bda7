-- open_session: a process starts. $1 id, $2 role, $3 lease in ms, $4 host, $5 pid, $6 version, $7 queues, $8 kinds, $9 slots.
INSERT INTO weir.sessions (id, lease_until, started_at, lease_ms, pid, slots, role, host, version, queues, kinds)
VALUES ($1, clock_timestamp() + $3::int * interval '1 ms', clock_timestamp(), $3::int, $5, $9, $2, $4, $6, $7, $8)
ON CONFLICT (id) DO NOTHING
RETURNING clock_timestamp()
