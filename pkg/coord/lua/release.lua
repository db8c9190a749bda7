-- release: give locks back, or hand them to the next job in the same step, so that nobody comes between.
-- KEYS[i] holders (sorted set: member = job, score = expiry in ms), the same key as often as it is needed;
-- ARGV[1] how long a job that takes over holds, in ms; then for each key: the job that leaves ('' = none) and the one
-- that takes its place ('' = none). Who takes over was admitted by Postgres: it is added whatever stands here.
-- Returns how many of those that leave were there. Safe to repeat.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ttl = tonumber(ARGV[1])
local found = 0
for i, key in ipairs(KEYS) do
  local out, into = ARGV[2 * i], ARGV[2 * i + 1]
  if out ~= '' then found = found + redis.call('ZREM', key, out) end
  if into ~= '' then
    redis.call('ZADD', key, 'GT', now + ttl, into)
    if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
  end
end
return found
