-- Moves due jobs of some lanes to the ready list. They stay in their buckets,
-- out until their visibility deadline, so a lost hint loses nothing.
-- KEYS lanes counts out held ready topics tokens places ranks index busy, then the lanes' buckets
-- ARGV cap batch visibility endpoint_limit (0: none) probe_limit
--      ask (1: tell which lanes are missing, if any), then for each lane: name, limit (0: none)
-- Returns now, when the earliest lane next needs a look (-1: there is none),
--   1 if the ready list is full, then hint and state for each job carried.
-- Or now, -1, 2, then lanes that may go before those given; nothing is done then.
local lanes, counts, out, held, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local topics, tokens, places_key, ranks = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local index, busy = KEYS[10], KEYS[11]
local cap, batch, visibility = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local endpoint_limit, probe_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST, FIRST_ARG = 12, 7 -- of the buckets in KEYS, and of the lanes in ARGV
-- How long a lane at a limit is left alone: until a place may have come free.
-- Lanes of one endpoint are looked at together, or one of them could take
-- every place that comes free.
local LIMITED, RESTRAINED = 10, 100
-- While an endpoint ramps up its limit doubles from the probes' every STEP.
local STEP, STEPS = 1000, 10
local now = now_ms()
local room = math.min(batch, cap - redis.call('LLEN', ready))
local reply = { now, -1, 0 }
-- A key is counted as often as it is named, so this tells all three apart.
local special = redis.call('EXISTS', held, topics, topics, ranks, ranks, ranks, ranks)
local gates, ranked = special % 2 == 1, special >= 4

-- The limits of the topics that have some, with what is left of them for now.
local limits = {}
if special % 4 >= 2 then
  local names = {}
  for i = FIRST_ARG, #ARGV, 2 do
    names[#names + 1] = ARGV[i]
  end
  limits = limits_of(topics, names)
  for topic, of in pairs(limits) do
    if of.concurrency > 0 then
      local out_now = redis.call('HMGET', counts, topic .. '|' .. READY, topic .. '|' .. RUNNING)
      of.free = math.max(0, of.concurrency - (out_now[1] or 0) - (out_now[2] or 0))
    end
    if of.interval > 0 then
      of.next = tonumber(redis.call('HGET', tokens, topic) or 0)
      if of.next < now - PACE_SLACK or of.next > now + of.interval + PACE_SLACK then
        of.next = now
      end
      of.unserved, of.served = {}, {}
    end
  end
end

-- allowed is how many jobs a topic's rate lets go now.
local function allowed(of)
  if of.next > now then
    return 0
  end
  return math.floor((now - of.next) / of.interval) + 1
end

-- limits_for gives the limits of a lane's topic, or nil.
local any_limits = next(limits) ~= nil
local function limits_for(lane)
  return any_limits and limits[topic_of(lane)] or nil
end

if ranked and ARGV[6] == '1' then
  local missing = missing_rivals(lanes, ranks, places_key, limits, now)
  if #missing > 0 then
    return { now, -1, 2, unpack(missing) }
  end
end

-- quantum is the share of a topic's lane in the room that there was at first;
-- siblings have one among them.
local room_at_first, weights = room, 0
for i = FIRST_ARG, #ARGV, 2 do
  if not ranked or first_sibling(ARGV[i]) then
    local of = limits_for(ARGV[i])
    weights = weights + (of and of.weight or DEFAULT_WEIGHT)
  end
end
local function quantum(of)
  return math.max(1, math.ceil(room_at_first * (of and of.weight or DEFAULT_WEIGHT) / math.max(1, weights)))
end
local order = ranked and by_priority() or nil

-- gate gives until when an endpoint is held (or nil), and what it is limited to
-- while it is probed or ramps up (or nil). A gate that stands open is removed.
local function gate(endpoint)
  local v = redis.call('HGET', held, endpoint)
  if not v then
    return nil
  end
  local till, probe = string.match(v, '^(%d+) (%d+)$')
  if till then
    if now < tonumber(till) then
      return tonumber(till)
    elseif now < tonumber(probe) then
      return nil, probe_limit
    end
  else
    local step = math.max(0, math.floor((now - v) / STEP)) -- a clock may have gone back
    local limit = probe_limit * 2 ^ step
    if step < STEPS and (endpoint_limit == 0 or limit < endpoint_limit) then
      return nil, limit
    end
  end
  redis.call('HDEL', held, endpoint)
end

-- How many jobs of an endpoint are out, with what this call carried.
local outs = {}
local function out_of(endpoint)
  if not outs[endpoint] then
    outs[endpoint] = tonumber(redis.call('HGET', out, endpoint) or 0)
  end
  return outs[endpoint]
end

-- places is how many more jobs of a lane's endpoint may go out, nil for any number.
local function places(lane, lane_limit, restraint)
  local limit = nil
  if endpoint_limit > 0 then
    limit = math.max(endpoint_limit, lane_limit)
  end
  if restraint then
    limit = math.min(limit or restraint, restraint)
  end
  return limit and math.max(0, limit - out_of(endpoint_of(lane)))
end

-- A bucket that holds no more than FEW entries is read at once, and what this
-- call makes of them is known without reading it again.
local FEW = 3
local function read_bucket(key)
  local first = redis.call('ZRANGE', key, 0, FEW, 'WITHSCORES')
  for i = 2, #first, 2 do
    first[i] = tonumber(first[i])
  end
  return { key = key, first = first, whole = #first <= 2 * FEW }
end

-- range gives entries (id and score in turn) that are scored from low (nil: no
-- bound) to below high.
local function range(bucket, low, high, limit)
  if not bucket.whole then
    return redis.call('ZRANGE', bucket.key, low or '-inf', '(' .. string.format('%.0f', high), 'BYSCORE',
      'LIMIT', 0, limit, 'WITHSCORES')
  end
  local found, first = {}, bucket.first
  for i = 1, #first, 2 do
    if #found < 2 * limit and first[i + 1] < high and first[i + 1] >= (low or first[i + 1]) then
      found[#found + 1], found[#found + 2] = first[i], first[i + 1]
    end
  end
  return found
end

-- next_of is when a bucket next needs a look; nil when it is empty.
local function next_of(bucket)
  if not bucket.whole then
    return next_look(bucket.key)
  end
  local earliest = nil
  for i = 2, #bucket.first, 2 do
    local _, ms = place(bucket.first[i])
    earliest = math.min(earliest or ms, ms)
  end
  return earliest
end

local out_score = score(READY, now + visibility)
local function rescore(bucket, id)
  for i = 1, #bucket.first, 2 do
    if bucket.first[i] == id then
      bucket.first[i + 1] = tonumber(out_score)
    end
  end
end

-- take carries entries of a lane, and says how many. The hints are pushed at the end.
local hints = {}
local function take(lane, bucket, entries)
  if #entries == 0 then
    return 0
  end
  local rescored = {}
  for i = 1, #entries, 2 do
    local id, state = entries[i], place(tonumber(entries[i + 1]))
    local hint = lane .. '|' .. id
    rescored[#rescored + 1] = out_score
    rescored[#rescored + 1] = id
    if bucket.whole then
      rescore(bucket, id)
    end
    hints[#hints + 1] = hint
    reply[#reply + 1] = hint
    reply[#reply + 1] = state
    count(lane, state, -1)
    count(lane, READY, 1)
  end
  redis.call('ZADD', bucket.key, unpack(rescored))
  local taken = #entries / 2
  room = room - taken
  return taken
end

-- await_place puts a lane where one is called from when a place comes free.
local function await_place(lane, bucket, own)
  redis.call('ZADD', places_key, 0, own and '=' .. lane or lane)
  local till = now + (own and LANE_LOOK or UNCALLED)
  local first = redis.call('ZRANGE', bucket.key, 0, 0, 'WITHSCORES')[2]
  local state, ms = place(tonumber(first))
  return state >= READY and math.min(till, ms) or till
end

-- serve carries a lane's share, and says when it next needs a look; false if that
-- is decided later.
local function serve(lane, key, lane_limit, restraint, of)
  local bucket = read_bucket(key)
  local among = ranked and common_of(lane)
  local share = math.min(among and share_among(among, lane, quantum(of)) or quantum(of), room)
  local paced = of and of.next
  if paced then
    share = math.min(share, allowed(of))
  end
  local before = share
  -- What is out and lapsed comes first: it holds places of the limits.
  local lapsed = now + 1 - BASE
  if share > 0 and bucket.first[2] and bucket.first[2] < lapsed then
    share = share - take(lane, bucket, range(bucket, nil, lapsed, share))
  end
  local at_endpoint = places(lane, lane_limit, restraint)
  local own = lane_limit > 0 and math.max(0, lane_limit - out_of_lane(among, lane, key)) or nil
  local of_topic = of and of.free
  local free = math.min(at_endpoint or share, own or share, of_topic or share)
  local limited = free < share
  local rest = math.min(share, free)
  local taken = 0
  if rest > 0 then
    taken = take(lane, bucket, range(bucket, 0, now + 1, rest))
    if at_endpoint then
      local endpoint = endpoint_of(lane)
      outs[endpoint] = out_of(endpoint) + taken
    end
    if of_topic then
      of.free = of_topic - taken
    end
  end
  taken = taken + before - share
  if paced then
    of.next = of.next + taken * of.interval
    of.taken = (of.taken or 0) + taken
  end
  if among then
    among.left = among.left - taken
  end
  local look = next_of(bucket)
  if not look or look > now then
    return look
  elseif paced and allowed(of) == 0 then
    local waiting = taken > 0 and of.served or of.unserved
    waiting[#waiting + 1] = lane
    return false
  elseif not limited then
    if among then
      among.cut = among.cut or rank_of(lane)
    end
    return now -- more is due: to the back of the line, behind lanes that became due before
  elseif among and own == free and at_endpoint ~= free and of_topic ~= free then
    return (math.floor(now / LIMITED) + 1) * LIMITED -- a place that a sibling frees is no call for this lane
  elseif at_endpoint ~= free and (own == free or of_topic == free) then
    return await_place(lane, bucket, own == free)
  end
  local pause = restraint and RESTRAINED or LIMITED
  return (math.floor(now / pause) + 1) * pause
end

-- When lanes next need a look is written once for all.
local looks, without_jobs = {}, {}
local function write_look(lane, look)
  if look then
    looks[#looks + 1] = text(look)
    looks[#looks + 1] = lane
  else
    without_jobs[#without_jobs + 1] = lane
  end
end

for n = 0, #KEYS - FIRST do
  if room <= 0 then
    break -- the others keep their places in the line
  end
  local i = order and order[n] or n
  local lane, bucket, lane_limit = ARGV[FIRST_ARG + 2 * i], KEYS[FIRST + i], tonumber(ARGV[FIRST_ARG + 2 * i + 1])
  local of = limits_for(lane)
  local look, till, restraint
  if gates then
    till, restraint = gate(endpoint_of(lane))
  end
  if of and of.paused then
    till = now + UNCALLED
  end
  if not till then
    if of and of.free then
      redis.call('ZREM', places_key, lane)
    end
    look = serve(lane, bucket, lane_limit, restraint, of)
  elseif redis.call('EXISTS', bucket) == 1 then
    look = till
  end
  if look ~= false then
    write_look(lane, look)
  end
end

-- Lanes that wait for the rate of their topic get their turns: one each time that
-- it allows a job. Others are called for places that are left: whoever was called
-- before may have had no use for one.
for topic, of in pairs(limits) do
  if of.taken then
    redis.call('HSET', tokens, topic, string.format('%.3f', of.next))
  end
  local waiting = of.unserved or {}
  for _, lane in ipairs(of.served or {}) do
    waiting[#waiting + 1] = lane
  end
  local first = ranked and first_to_go(waiting) or nil
  for turn, lane in ipairs(waiting) do
    local look = math.max(math.ceil(of.next + (turn - 1) * of.interval), now + (of.interval < PACE_GAP and PACE_GAP or 1))
    if first and rank_of(lane) ~= first then
      look = look + 1 -- not before one that goes first, and may have its next turn then
    end
    write_look(lane, look)
  end
  if of.free and of.free > 0 and room > 0 then
    call_lane(places_key, topic, now)
  end
end
if #looks > 0 then
  redis.call('ZADD', lanes, unpack(looks))
end
forget_lanes(lanes, ranks, index, without_jobs)
for lane in pairs(earlier) do
  redis.call('ZADD', lanes, 'LT', now, lane)
end
if #hints > 0 then
  redis.call('RPUSH', ready, unpack(hints))
end
write_counts(counts, out, busy)
local head = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
if head then
  reply[2] = math.floor(tonumber(head))
end
if room <= 0 and cap - redis.call('LLEN', ready) <= 0 then
  reply[3] = 1
end
return reply
