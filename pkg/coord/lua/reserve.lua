-- reserve: give jobs the earliest instant at which all their rates have room, now or later. rate.go says how and why.
-- KEYS[4i-3..4i] of the rate i, the first having 1: state (hash: per and until = the longest window in use and until when
-- it counts, tail and gap = end of the line and the distance to keep from it, late and lategap = the same for those that
-- were put off, last = the latest instant given, hold = closed until); buckets (sorted set: score = bucket of time,
-- member = "bucket:started:promised:in line"); jobs (sorted set: member, score = instant + kind / 4); holes (sorted
-- set: score = instant, member = "instant:weight:job that gave it back"). All times in ms on the Redis clock.
-- ARGV[1] horizon in ms; then for each job: its member, not before so many ms from now, the number of its rates, and for
-- each the number i of the rate, N, the window in ms and the weight.
-- Returns for each job the wait in ms and whether it is parked (1). Safe to repeat: who holds an instant keeps it.
local KEEP, MOST = 60000, 100000 -- how long and how many jobs a rate remembers
local LINE, PROMISED, STARTED = 0, 1, 2
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
local horizon = tonumber(ARGV[1])
local rates = {}

local function text(n) return string.format('%.0f', n) end

-- bucket is the one that holds an instant, counted from now: the tables below stay small in every Lua that has arrays.
local function bucket(r, instant) return floor(instant / r.b) - r.zero end

-- grain sets how long a bucket is.
local function grain(r, per)
  r.per, r.b = per, max(1, floor(per / 200))
  r.zero = floor(now / r.b)
end

local function parse(cell)
  local at, s, p, f = string.match(cell, '^(%d+):(%d+):(%d+):(%d+)$')
  return tonumber(at), tonumber(s), tonumber(p), tonumber(f)
end

-- tally adds up a bucket: plan is all that is in it, real what started or is promised. A promise whose job has not come
-- for a while does not count against those that have.
local function tally(r, at)
  local s, p, f = r.s[at] or 0, r.p[at] or 0, r.f[at] or 0
  r.plan[at] = s + p + f
  r.real[at] = s + (at > -4 and p or 0)
  if at > r.top and s + p + f > 0 then r.top = at end
end

-- need reads the buckets lo to hi, in pieces of 64, unless they were read before.
local function need(r, lo, hi)
  local c, last = floor(lo / 64), floor(hi / 64)
  while c <= last do
    local e = c
    if not r.seen[c] then
      while e < last and not r.seen[e + 1] do e = e + 1 end
      for _, cell in ipairs(redis.call('ZRANGEBYSCORE', r.buckets, text(r.zero + c * 64), text(r.zero + e * 64 + 63))) do
        local at, s, p, f = parse(cell)
        at = at - r.zero
        r.raw[at], r.s[at], r.p[at], r.f[at] = cell, s, p, f
        tally(r, at)
      end
      for i = c, e do r.seen[i] = true end
    end
    c = e + 1
  end
end

-- add changes a bucket: s is what started, p what is promised, f what stands in line.
local FIELD = {[LINE] = 'f', [PROMISED] = 'p', [STARTED] = 's'}
local function add(r, field, at, n)
  need(r, at, at)
  r[field][at] = max(0, (r[field][at] or 0) + n)
  tally(r, at)
  r.dirty[at] = true
end

local function flush(r)
  for i in pairs(r.dirty) do
    if r.raw[i] then redis.call('ZREM', r.buckets, r.raw[i]) end
    local s, p, f = r.s[i] or 0, r.p[i] or 0, r.f[i] or 0
    r.raw[i] = nil
    if s + p + f > 0 then
      local at = text(r.zero + i)
      r.raw[i] = at .. ':' .. text(s) .. ':' .. text(p) .. ':' .. text(f)
      redis.call('ZADD', r.buckets, at, r.raw[i])
    end
  end
  r.dirty = {}
end

local function forget(r)
  r.s, r.p, r.f, r.plan, r.real, r.raw, r.seen, r.dirty, r.top = {}, {}, {}, {}, {}, {}, {}, {}, -math.huge
end

-- regrid makes the buckets fit another window. What was counted stays counted, at the end of its former bucket.
local function regrid(r, per)
  local old = r.b
  if old then flush(r) end
  grain(r, per)
  if not old or old == r.b then return end
  local cells = redis.call('ZRANGE', r.buckets, 0, -1)
  redis.call('DEL', r.buckets)
  forget(r)
  for _, cell in ipairs(cells) do
    local at, s, p, f = parse(cell)
    at = bucket(r, (at + 1) * old - 1)
    add(r, 's', at, s)
    add(r, 'p', at, p)
    add(r, 'f', at, f)
  end
end

local function load(i)
  local k = 4 * i
  local r = {state = KEYS[k - 3], buckets = KEYS[k - 2], jobs = KEYS[k - 1], holes = KEYS[k]}
  local f = redis.call('HMGET', r.state, 'per', 'until', 'tail', 'gap', 'late', 'lategap', 'last', 'hold')
  for n, name in ipairs({'per', 'upto', 'tail', 'gap', 'late', 'lategap', 'last', 'hold'}) do r[name] = tonumber(f[n] or 0) end
  forget(r)
  if r.last > now + KEEP + 1000 then -- the clock went back: what is to come lies nobody knows where
    redis.call('DEL', r.buckets, r.jobs, r.holes)
    r.per, r.tail, r.late, r.last = 0, 0, 0, 0
  end
  if r.per > 0 then
    grain(r, r.per)
    redis.call('ZREMRANGEBYSCORE', r.jobs, '-inf', text(now - KEEP))
  end
  rates[i] = r
  return r
end

-- want is what a job asks of one rate. strict is the window, in buckets, that what starts must keep; wide is the one that
-- what is planned keeps.
local function want(i, n, per, weight)
  local r = rates[i] or load(i)
  if per > r.per or now > r.upto and per ~= r.per then regrid(r, per) end
  if per == r.per then r.upto = now + 2 * per end
  local strict = ceil(per / r.b) + 2
  return {r = r, n = n, w = weight, strict = strict, wide = strict + 2, gap = (strict + 2) * r.b / floor(n / weight)}
end

-- total adds up the window that ends with bucket x, with the job itself; what is plan or real.
local function total(q, x, window, what)
  need(q.r, x - window + 1, x)
  local sum, cells = q.w, q.r[what]
  for i = x - window + 1, x do sum = sum + (cells[i] or 0) end
  return sum
end

-- ahead looks at the windows that hold x and end after it. Returns where the first one ends that would be too full.
local function ahead(q, x, window, what, sum)
  need(q.r, x + 1, x + window - 1)
  local cells = q.r[what]
  for i = x + 1, min(x + window - 1, q.r.top) do
    sum = sum + (cells[i] or 0) - (cells[i - window] or 0)
    if sum > q.n then return i, sum end
  end
end

-- earliest finds the first bucket from x on in which the job starts without making any window too full; nil: none within
-- the horizon.
local function earliest(q, x, window, what)
  local last = bucket(q.r, now + horizon)
  if x > last then return nil end
  local sum, cells = total(q, x, window, what), q.r[what]
  while x <= last do
    local to = x + 1
    if sum <= q.n then
      local full, full_sum = ahead(q, x, window, what, sum)
      if not full then return x end
      x, sum, to = full, full_sum, full + 1 -- every bucket up to there shares that window
    end
    need(q.r, to, to)
    sum = sum + (cells[to] or 0) - (cells[to - window] or 0)
    x = to
  end
end

-- place finds when one rate alone could have a job that is new. While others stand in line it takes a hole that one of
-- them left, or the line's end, with its distance kept, so that a full line is an even flow.
local function place(q)
  local r = q.r
  local from = max(now, r.hold)
  if r.tail > now then
    if not r.solid then
      local holes = redis.call('ZRANGEBYSCORE', r.holes, '(' .. text(from), '+inf', 'LIMIT', 0, 8)
      r.solid = #holes == 0
      for _, hole in ipairs(holes) do
        local at, weight = string.match(hole, '^(%d+):(%d+):')
        local x = bucket(r, tonumber(at))
        local sum = tonumber(weight) >= q.w and total(q, x, q.wide, 'plan') or q.n + 1
        if sum <= q.n and not ahead(q, x, q.wide, 'plan', sum) then return tonumber(at), hole end
      end
    end
    from = max(from, r.tail + max(q.gap, r.gap))
  end
  local x = earliest(q, bucket(r, from), q.wide, 'plan')
  return x and max(from, (r.zero + x) * r.b)
end

-- meet moves t on until all rates in qs have room; nil: not within the horizon.
local function meet(qs, t, what, isFixed)
  local moved = true
  while moved do
    moved = false
    for _, q in ipairs(qs) do
      if not isFixed(q, t) then
        local x = earliest(q, bucket(q.r, t), q.wide, what)
        if not x then return nil end
        local at = (q.r.zero + x) * q.r.b
        if at > t then t, moved = at, true end
      end
    end
  end
  if t <= now + horizon then return t end
end

-- isCrowded bounds what a rate remembers: past MOST instants to come, others are parked.
local function isCrowded(r)
  r.size = r.size or redis.call('ZCARD', r.jobs)
  return r.size >= MOST and redis.call('ZCOUNT', r.jobs, '(' .. text(now + 1), '+inf') >= MOST
end

local function put(q, member, instant, kind)
  local r = q.r
  add(r, FIELD[kind], bucket(r, instant), q.w)
  local isNew = redis.call('ZADD', r.jobs, string.format('%.2f', instant + kind / 4), member)
  r.size = (r.size or redis.call('ZCARD', r.jobs) - isNew) + isNew
  r.last = max(r.last, instant)
end

local function fill(q, at)
  local r, weight = q.r, tonumber(string.match(q.hole, '^%d+:(%d+):'))
  redis.call('ZREM', r.holes, q.hole)
  if weight > q.w then -- the rest stays a hole, as far behind as the flow takes to get there
    local rest = text(ceil(at + q.gap)) .. ':' .. text(weight - q.w) .. ':'
    redis.call('ZADD', r.holes, text(ceil(at + q.gap)), rest .. string.match(q.hole, '^%d+:%d+:(.*)$'))
  end
end

-- arrive serves a job that holds no instant yet.
local function arrive(qs, member, after)
  local t = now + after
  for _, q in ipairs(qs) do
    q.at, q.hole = place(q)
    if not q.at then return nil end
    t = max(t, q.at)
  end
  t = meet(qs, t, 'plan', function(q, at) return q.at == at end)
  if not t then return nil end
  if t > now then
    for _, q in ipairs(qs) do
      if isCrowded(q.r) then return nil end
    end
  end
  for _, q in ipairs(qs) do
    if t <= now then
      put(q, member, now, STARTED)
    elseif q.at ~= t then
      put(q, member, ceil(t), PROMISED) -- another rate is the slower one; it does not push this one's line
    else
      put(q, member, ceil(t), LINE)
      if q.hole then fill(q, t) else q.r.tail, q.r.gap = t, q.gap end
    end
  end
  return ceil(t) - now
end

-- start lets jobs begin whose instant has come, if what really started leaves room; else they are put off for as long
-- as that takes. What is promised to others counts as started, but those of them that are to start before count alone
-- when the job itself was promised its instant.
local function start(qs, member, after)
  local ok = after <= 0
  for _, q in ipairs(qs) do
    local sum = total(q, 0, q.strict, 'real')
    q.late = q.r.hold > now or sum > q.n or q.kind == LINE and ahead(q, 0, q.strict, 'real', sum) ~= nil
    ok = ok and not q.late
  end
  if ok then
    for _, q in ipairs(qs) do put(q, member, now, STARTED) end
    return 0
  end
  local t = now + after
  for _, q in ipairs(qs) do
    local r = q.r
    if q.late then t = max(t, r.hold, r.late > now and r.late + max(q.gap, r.lategap) or 0) end
  end
  t = meet(qs, t, 'real', function() return false end)
  if not t then return nil end
  for _, q in ipairs(qs) do
    put(q, member, ceil(t), PROMISED)
    if q.late then q.r.late, q.r.lategap = t, q.gap end
  end
  return ceil(t) - now
end

local function serve(qs, member, after)
  local known, instant, opens, early = 0, 0, now + after, 10
  for _, q in ipairs(qs) do
    local score = tonumber(redis.call('ZSCORE', q.r.jobs, member) or 0)
    if score > 0 then
      known = known + 1
      q.instant = floor(score)
      q.kind = (score - q.instant) * 4
      instant = max(instant, q.instant)
    end
    opens, early = max(opens, q.r.hold), min(early, 2 * q.r.b)
  end
  if known == #qs and instant > now + early and instant >= opens then return instant - now end
  for _, q in ipairs(qs) do
    if q.instant then add(q.r, FIELD[q.kind], bucket(q.r, q.instant), -q.w) end
  end
  local wait
  if known == #qs then wait = start(qs, member, after) else wait = arrive(qs, member, after) end
  if not wait then
    for _, q in ipairs(qs) do
      if q.instant then redis.call('ZREM', q.r.jobs, member) end
    end
  end
  return wait
end

local function save(r)
  flush(r)
  local span = (ceil(r.per / r.b) + 4) * r.b
  local wait = max(0, r.last - now)
  redis.call('ZREMRANGEBYSCORE', r.buckets, '-inf', text(r.zero - ceil(r.per / r.b) - 4))
  redis.call('HSET', r.state, 'per', text(r.per), 'until', text(r.upto), 'tail', string.format('%.6f', r.tail),
    'gap', string.format('%.6f', r.gap), 'late', string.format('%.6f', r.late), 'lategap', string.format('%.6f', r.lategap),
    'last', text(r.last))
  redis.call('PEXPIRE', r.state, text(max(wait + span, r.hold - now)))
  redis.call('PEXPIRE', r.buckets, text(wait + span))
  redis.call('PEXPIRE', r.jobs, text(wait > 0 and wait + KEEP or 5000))
  if r.size and r.size > MOST then redis.call('ZREMRANGEBYRANK', r.jobs, 0, r.size - MOST - 1) end
end

local result, arg = {}, 2
while arg <= #ARGV do
  local member, after, n = ARGV[arg], tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local qs, isClosed = {}, false
  for a = arg + 3, arg + 4 * n, 4 do
    local most = tonumber(ARGV[a + 1])
    -- A job that is heavier than the limit counts as all of it; no other way could it ever start.
    if most < 1 then isClosed = true else
      qs[#qs + 1] = want(tonumber(ARGV[a]), most, tonumber(ARGV[a + 2]), min(most, tonumber(ARGV[a + 3])))
    end
  end
  local wait
  if not isClosed then wait = serve(qs, member, after) end
  result[#result + 1] = wait or horizon
  result[#result + 1] = wait and 0 or 1
  arg = arg + 3 + 4 * n
end
for _, r in pairs(rates) do save(r) end
return result
