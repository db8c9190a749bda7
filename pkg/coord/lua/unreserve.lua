-- unreserve: give back the instants of jobs that will not start: cancelled, deleted, expired, or put off otherwise.
-- KEYS[4i-3..4i] a rate's state (hash), buckets, jobs and holes (sorted sets), see reserve.lua; ARGV[1] how long a hole
-- is kept, in ms; then for each job: its member, the number of its rates, and for each the number i of the rate and the
-- weight. Returns how many instants were given back. What has started stays counted. Safe to repeat.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- lower takes weight out of a bucket; which is 2 for what is promised, 3 for what stands in line.
local function lower(buckets, bucket, which, weight)
  local at = string.format('%.0f', bucket)
  for _, cell in ipairs(redis.call('ZRANGEBYSCORE', buckets, at, at)) do
    local s, p, f = string.match(cell, '^%d+:(%d+):(%d+):(%d+)$')
    local n = {tonumber(s), tonumber(p), tonumber(f)}
    n[which] = math.max(0, n[which] - weight)
    redis.call('ZREM', buckets, cell)
    if n[1] + n[2] + n[3] > 0 then
      redis.call('ZADD', buckets, at, string.format('%s:%.0f:%.0f:%.0f', at, n[1], n[2], n[3]))
    end
  end
end

local given, arg = 0, 2
while arg <= #ARGV do
  local member = ARGV[arg]
  for a = arg + 2, arg + 2 * tonumber(ARGV[arg + 1]), 2 do
    local k, weight = 4 * tonumber(ARGV[a]), tonumber(ARGV[a + 1])
    local score = tonumber(redis.call('ZSCORE', KEYS[k - 1], member) or 0)
    local instant = math.floor(score)
    local kind, per = (score - instant) * 4, tonumber(redis.call('HGET', KEYS[k - 3], 'per') or 0)
    if score > 0 and kind < 2 then
      redis.call('ZREM', KEYS[k - 1], member)
      given = given + 1
      if per > 0 then
        lower(KEYS[k - 2], math.floor(instant / math.max(1, math.floor(per / 200))), kind == 1 and 2 or 3, weight)
      end
      if kind == 0 and instant > now then
        redis.call('ZREMRANGEBYSCORE', KEYS[k], '-inf', now) -- nobody took them in time
        redis.call('ZADD', KEYS[k], string.format('%.0f', instant), string.format('%.0f:%.0f:', instant, weight) .. member)
        if redis.call('PTTL', KEYS[k]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[k], ARGV[1]) end
      end
    end
  end
  arg = arg + 2 + 2 * tonumber(ARGV[arg + 1])
end
return given
