-- register: set a worker's free slots in the idle sets of its queues; without a free slot it leaves the set.
-- KEYS[i] idle set (sorted set: member = worker, score = free slots); ARGV[1] worker; ARGV[2] expiry of a set in ms;
-- ARGV[2 + i] free slots for KEYS[i]. Returns how many sets it stands in. Safe to repeat.
local stands = 0
for i, key in ipairs(KEYS) do
  if tonumber(ARGV[2 + i]) > 0 then
    redis.call('ZADD', key, ARGV[2 + i], ARGV[1])
    redis.call('PEXPIRE', key, ARGV[2])
    stands = stands + 1
  else
    redis.call('ZREM', key, ARGV[1])
  end
end
return stands
