-- wake: tell idle workers of new jobs. The worker that asks may leave the idle sets in the same step (leaveFirst).
-- KEYS[1..n] idle sets that it leaves (sorted set: member = worker, score = free slots);
-- KEYS[n+1..] the idle set of each hint's queue, hints of one queue next to each other.
-- ARGV[1] the asking worker, never woken itself ('' = none); ARGV[2] n; ARGV[3] PUBLISH or SPUBLISH;
-- ARGV[4] prefix of the workers' channels; then three for each hint: jobs (count), rank (-1 = fullest first, -2 = so too,
-- and the jobs were announced before; else a random number that picks any), and the message without its count.
-- A worker that is woken for less than it has free stays in the set with half of the rest: it need not register again before its
-- claim (regFirst holds: it never left), which spares the job a round trip, and hints that come faster than it claims
-- soon go to others. It is told so by a + behind its share, and corrects its score after the claim; until then half a slot
-- in the score marks it as told.
-- silent: a hint for jobs that were announced before is not met by a worker that still bears the mark: it may stand still,
-- and would swallow one hint after the other. It is told and leaves the set, but the next one is woken too.
-- Returns {workers woken, workers popped that nobody heard for, jobs that found no idle worker}.
local asker, leaving, publish, prefix = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

-- leaveFirst: were it the other way round, a full worker could be the one that is woken, and the hint would be gone.
for i = 1, leaving do
  redis.call('ZREM', KEYS[i], asker)
end

local function pop(key, rank)
  if rank < 0 and asker == '' then
    local top = redis.call('ZPOPMAX', key)
    return top[1], tonumber(top[2])
  end
  local size = redis.call('ZCARD', key)
  if size == 0 then return nil end
  local at = rank < 0 and 0 or rank % size
  local top = redis.call('ZREVRANGE', key, at, at, 'WITHSCORES')
  if top[1] == asker then
    if size == 1 then return nil end
    at = (at + 1) % size
    top = redis.call('ZREVRANGE', key, at, at, 'WITHSCORES')
  end
  redis.call('ZREM', key, top[1])
  return top[1], tonumber(top[2])
end

local woken, unheard, short = 0, 0, 0
local worker, free, silent -- the worker popped last and what it has left; hints of several kinds share one worker
for i = leaving + 1, #KEYS do
  local arg = 5 + 3 * (i - leaving - 1)
  local need, rank, message = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1]), ARGV[arg + 2]
  local again = rank == -2
  if KEYS[i] ~= KEYS[i - 1] or i == leaving + 1 then free = 0 end
  while need > 0 do
    if free < 1 then
      worker, free = pop(KEYS[i], rank)
      if not worker then free = 0; break end
      silent = again and free % 1 > 0
      free = math.max(math.floor(free), 1)
    end
    local share = math.min(need, free)
    local rest = again and 0 or math.floor((free - share) / 2)
    -- receivers: a worker that died or lost its connection does not count; it is out of the set, and the next is asked.
    if redis.call(publish, prefix .. worker, 'h' .. string.format('%d', share) .. (rest > 0 and '+' or '') .. message) > 0 then
      woken, need, free = woken + 1, silent and need or need - share, silent and 0 or free - share
      if rest > 0 then
        redis.call('ZADD', KEYS[i], rest + 0.5, worker)
      else
        redis.call('ZREM', KEYS[i], worker) -- where an earlier hint of this call had left it
      end
    else
      redis.call('ZREM', KEYS[i], worker)
      unheard, free = unheard + 1, 0
    end
  end
  short = short + need
end
return {woken, unheard, short}
