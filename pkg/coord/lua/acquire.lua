-- acquire: take the key locks of jobs, all keys of a job or none, in the order given. Only advice: Postgres decides.
-- KEYS[i] holders (sorted set: member = job, score = expiry in ms), the keys of the first job, of the second, and so on;
-- ARGV[1] how long a grant lasts in ms; then for each job: its id, the number of its keys, and the limit of each.
-- Returns for each job 0, or which of its keys is busy, from 1. A job that holds a key already keeps it: safe to repeat.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local ttl = tonumber(ARGV[1])

local size = {}  -- holders of a key, without those that are expired
local older = {} -- refused jobs of this call that wait for a key (`batchOrder`)

local function count(key)
  if not size[key] then
    size[key] = redis.call('ZCARD', key)
    if size[key] > 0 then
      size[key] = size[key] - redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    end
  end
  return size[key]
end

local function isBusy(key, job, limit)
  local n = count(key)
  if n > 0 and redis.call('ZSCORE', key, job) then return n > limit end
  return n + (older[key] or 0) >= limit
end

local function hold(key, job)
  if redis.call('ZADD', key, 'GT', now + ttl, job) == 1 then size[key] = size[key] + 1 end
  -- The set outlives its last member by nothing, and never dies before it.
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end

local result = {}
local key, arg = 1, 2
while arg <= #ARGV do
  local job, n = ARGV[arg], tonumber(ARGV[arg + 1])
  local busy = 0
  for i = 1, n do
    if isBusy(KEYS[key + i - 1], job, tonumber(ARGV[arg + 1 + i])) then
      busy = i
      break
    end
  end
  for i = key, key + n - 1 do
    if busy == 0 then
      hold(KEYS[i], job)
    else
      older[KEYS[i]] = (older[KEYS[i]] or 0) + 1
    end
  end
  result[#result + 1] = busy
  key, arg = key + n, arg + 2 + n
end
return result
