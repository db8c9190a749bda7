-- holders: read who holds a key. KEYS[1] holders (sorted set: member = job, score = expiry in ms); ARGV[1] how many at
-- most. Returns members and expiries by turns, who expires first in front, without those that are expired.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
