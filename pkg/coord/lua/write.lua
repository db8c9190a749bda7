-- write: replace the holders of keys by those that Postgres has.
-- KEYS[i] holders (sorted set: member = job, score = expiry in ms); ARGV[1] how long they hold, in ms; then for each
-- key: 1 to replace the set, 0 to add to it (a long list comes in parts), the number of jobs, and the jobs.
-- Returns {members that were wrong, members that were missing}; expired ones are neither. Safe to repeat.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ttl = tonumber(ARGV[1])
local wrong, missing = 0, 0
local arg = 2
for _, key in ipairs(KEYS) do
  local had, n = {}, tonumber(ARGV[arg + 1])
  if ARGV[arg] == '1' then
    for _, job in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. now, '+inf')) do
      had[job], wrong = true, wrong + 1
    end
    redis.call('DEL', key)
  end
  for i = arg + 2, arg + 1 + n do
    local job = ARGV[i]
    if had[job] then
      had[job], wrong = nil, wrong - 1
    else
      missing = missing + 1
    end
    redis.call('ZADD', key, now + ttl, job)
  end
  if n > 0 then redis.call('PEXPIRE', key, ttl) end
  arg = arg + 2 + n
end
return {wrong, missing}
