-- renew: let members hold on; one that is not there is not added, since its place may be another's by now.
-- KEYS[i] holders (sorted set: member = job, score = expiry in ms), the same key as often as it is needed;
-- ARGV[1] how long from now, in ms; ARGV[1 + i] the member of KEYS[i]. Returns how many were there. Safe to repeat.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ttl = tonumber(ARGV[1])
local found = 0
for i, key in ipairs(KEYS) do
  if redis.call('ZSCORE', key, ARGV[1 + i]) then
    found = found + 1
    redis.call('ZADD', key, 'GT', now + ttl, ARGV[1 + i])
    if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
  end
end
return found
