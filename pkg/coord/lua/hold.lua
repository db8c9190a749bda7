-- hold: close a rate for a while. KEYS[1] state of the rate (hash); ARGV[1] for how long from now, in ms.
-- A longer hold that stands already stays. Returns when the rate opens, in ms. Safe to repeat.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local wait = tonumber(ARGV[1])
local hold = math.max(now + wait, tonumber(redis.call('HGET', KEYS[1], 'hold') or 0))
redis.call('HSET', KEYS[1], 'hold', string.format('%.0f', hold))
if redis.call('PTTL', KEYS[1]) < wait then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return hold
