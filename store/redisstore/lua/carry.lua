-- Executes a plan of store/rules: moves due jobs to the ready list. They stay in their
-- buckets until their visibility deadline, so a lost hint loses nothing. The script decides
-- nothing. It compares counts with limits as rules.Run does.
-- KEYS own, then each lane's bucket
-- ARGV cap batch visibility plan (JSON, see encode.go; what is of store/rules has its names
--      there), then the lanes in the order of their visits
-- Returns now, when the earliest lane next needs a look (-1: there is none), 1 if the ready
--   list is full, topics and their new tokens in turn, then hint and state of each carried job.
-- Or now, -1, 2 and what lacking in lib/facts.lua returns. Then it did nothing.
local cap, batch, visibility, plan = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), cjson.decode(ARGV[4])
local all_lanes = { unpack(ARGV, 5) }
local now = now_ms()
local lacks = lacking(plan, all_lanes, now)
if lacks then
  return { now, -1, 2, unpack(lacks) }
end

local room = math.min(batch, cap - redis.call('LLEN', ready))
local changed, hints = {}, {}
local reply = { now, -1, 0, changed }
local first_room, again, carried_score = room, now + 1 - BASE, score(READY, now + visibility)

-- A bucket of at most FEW entries is read at once and not again.
local FEW, LAST_OF_FEW = 3, '3'
local function read_bucket(key)
  local first = redis.call('ZRANGE', key, '0', LAST_OF_FEW, 'WITHSCORES')
  for i = 2, #first, 2 do
    first[i] = tonumber(first[i])
  end
  return { key = key, first = first, whole = #first <= 2 * FEW }
end

-- take carries at most n entries of a bucket with scores from low ('0', nil: no bound) to below
-- high, and returns how many.
local function take(lane, bucket, low, high, n)
  local found, rescored, taken, whole = bucket.first, {}, 0, bucket.whole
  if not whole then
    found = redis.call('ZRANGE', bucket.key, low or '-inf', '(' .. text(high), 'BYSCORE', 'LIMIT', '0', text(n),
      'WITHSCORES')
  end
  for i = 1, #found, 2 do
    local id, at = found[i], tonumber(found[i + 1])
    if not whole or taken < n and at < high and (not low or at >= 0) then
      local hint, state = lane .. '|' .. id, place(at)
      taken = taken + 1
      rescored[2 * taken - 1], rescored[2 * taken] = carried_score, id
      hints[#hints + 1] = hint
      reply[#reply + 1] = hint
      reply[#reply + 1] = state
      count(lane, state, -1)
      count(lane, READY, 1)
      if whole then
        found[i + 1] = tonumber(carried_score)
      end
    end
  end
  if taken > 0 then
    redis.call('ZADD', bucket.key, unpack(rescored))
  end
  return taken
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

-- Jobs in flight, with those that this call carried: of endpoints, and of the lanes of one
-- topic and endpoint.
local by_endpoint, by_lane
local function endpoint_flight(endpoint)
  if not by_endpoint then
    by_endpoint = {}
    local all, fields = names(all_lanes, endpoint_of), {}
    for n, name in ipairs(all) do
      fields[2 * n - 1], fields[2 * n] = '=' .. name .. OF_STATE[READY], '=' .. name .. OF_STATE[RUNNING]
    end
    local flights = redis.call('HMGET', counts, unpack(fields))
    for n, name in ipairs(all) do
      by_endpoint[name] = (flights[2 * n - 1] or 0) + (flights[2 * n] or 0)
    end
  end
  return by_endpoint[endpoint]
end

local function own_flight(name, key)
  if #plan.groups == 0 then
    return redis.call('ZCOUNT', key, '-inf', '(0')
  elseif not by_lane then
    by_lane = {}
    for n, lane in ipairs(all_lanes) do
      local plain = plain_of(lane)
      by_lane[plain] = (by_lane[plain] or 0) + redis.call('ZCOUNT', KEYS[OWN_KEYS + n], '-inf', '(0')
    end
  end
  return by_lane[name]
end

local function topic_flight(topic)
  if not topic.flight then
    local states = redis.call('HMGET', counts, topic.Name .. '|' .. READY, topic.Name .. '|' .. RUNNING)
    topic.flight = (states[1] or 0) + (states[2] or 0)
  end
  return topic.flight
end

-- share_of is the lane's share of the ready list and of its topic's rate.
local function share_of(t, topic, group)
  local share = math.max(1, math.ceil(first_room * t.Part))
  if group then
    local visits = group.Ranks[t.Rank + 1] -- ranks begin at 0
    group.left = group.left or group.Endpoints * share
    share = group.cut and group.cut < t.Rank and 0 or math.ceil(math.max(0, group.left) / visits)
    group.Ranks[t.Rank + 1] = visits - 1
  end
  return topic and topic.Paced and math.min(share, topic.Allowed - topic.taken) or share
end

-- await_slot has a lane wait for its topic's rate. Lanes come in by rank. Of one rank those
-- of which nothing went go first.
local function await_slot(topic, lane, t, served)
  local waiting = topic.waiting
  local at = #waiting + 1
  while not served and at > 1 and waiting[at - 1].served and waiting[at - 1].rank == t.Rank do
    at = at - 1
  end
  table.insert(waiting, at, { lane = lane, served = served, rank = t.Rank, late = t.Late and 1 or 0 })
end

-- await_place has a lane called when a place comes free, and returns when it needs a look in
-- any case.
local called, calm = {}, {}
local function await_place(bucket, name, till)
  called[#called + 1], called[#called + 2] = '0', name
  local state, ms = place(tonumber(redis.call('ZRANGE', bucket.key, '0', '0', 'WITHSCORES')[2]))
  return state >= READY and math.min(till, ms) or till
end

-- wake has heads of order keys due that were parked. It reports whether there may be more.
local WOKEN = 500
local function wake(lane, key)
  local called = redis.call('ZRANGE', calls, '[' .. lane .. '|', '(' .. lane .. '}', 'BYLEX', 'LIMIT', '0', text(WOKEN))
  if #called == 0 then
    return false
  end
  local ids, woken = {}, {}
  for n, name in ipairs(called) do
    ids[n] = string.sub(name, #lane + 2)
  end
  for n, at in ipairs(redis.call('ZMSCORE', key, unpack(ids))) do
    if at and tonumber(at) >= PARK then
      local state, ms = place(tonumber(at))
      woken[#woken + 1], woken[#woken + 2] = score(state, ms - PARK), ids[n]
    end
  end
  if #woken > 0 then
    redis.call('ZADD', key, unpack(woken))
  end
  redis.call('ZREM', calls, unpack(called))
  return #called == WOKEN
end

local ANY = {} -- places without a limit

-- visit carries what may go of a lane. It returns when the lane next needs a look: nil if it
-- has no jobs, false if that is decided later.
local function visit(lane, key, t)
  local topic, group, places_at, places_own = plan.topics[t.Topic], plan.groups[t.Group], t.Endpoint or ANY, t.Own or ANY
  local bucket, endpoint, name = read_bucket(key), endpoint_of(lane), group and plain_of(lane) or lane
  local share = share_of(t, topic, group)
  local most, taken = math.min(share, room), 0
  -- Jobs in flight that are due again go first. They have their places.
  if most > 0 and bucket.first[2] and bucket.first[2] < again then
    taken = take(lane, bucket, nil, again, most)
  end
  local own, fresh = places_own.Limit and own_flight(name, key), most - taken
  if places_at.Limit then
    fresh = math.min(fresh, places_at.Limit - endpoint_flight(endpoint))
  end
  if own then
    fresh = math.min(fresh, places_own.Limit - own)
  end
  if topic and topic.Limit then
    fresh = math.min(fresh, topic.Limit - topic_flight(topic))
  end
  fresh = fresh > 0 and take(lane, bucket, '0', now + 1, fresh) or 0
  taken = taken + fresh
  room = room - taken
  if group then
    group.left = group.left - taken
  end
  if places_at.Limit then
    by_endpoint[endpoint] = by_endpoint[endpoint] + fresh
  end
  if by_lane then
    by_lane[name] = by_lane[name] + fresh
  end
  if topic then
    topic.taken, topic.flight = topic.taken + taken, topic.flight and topic.flight + fresh
  end

  local look = next_of(bucket)
  if not look or look > now then
    return look
  elseif topic and topic.Paced and topic.taken >= topic.Allowed then
    if taken > 0 or not t.Rival then
      await_slot(topic, lane, t, taken > 0)
    end
    return false
  elseif places_at.Limit and by_endpoint[endpoint] >= places_at.Limit then
    return math.max(places_at.Look, now + 1) -- the plan was made a moment ago
  elseif own and own + fresh >= places_own.Limit then
    return places_own.Called and await_place(bucket, '=' .. lane, places_own.Look) or math.max(places_own.Look, now + 1)
  elseif topic and topic.Limit and topic.flight >= topic.Limit then
    return await_place(bucket, lane, topic.Look)
  end
  if group then
    group.cut = group.cut or t.Rank
  end
  return share <= most and now -- to the end of the line, unless the room ended
end

local is_whole = nil
local function whole_now()
  if is_whole == nil then
    is_whole = lacks_none(whole)
  end
  return is_whole
end

local looks, without_jobs = {}, {}
local function set_look(lane, look)
  if look then
    looks[#looks + 1], looks[#looks + 2] = text(look), lane
  elseif look == nil then
    without_jobs[#without_jobs + 1] = lane
  end
end

for _, topic in ipairs(plan.topics) do
  topic.waiting, topic.taken = {}, 0
end
for n = 1, plan.visited do
  if room <= 0 then
    break -- the others keep their places in line
  end
  local lane, key, t = all_lanes[n], KEYS[OWN_KEYS + n], plan.terms[plan.visits and plan.visits[n] or 1]
  if t.Topic and plan.topics[t.Topic].Limit then
    calm[#calm + 1] = lane
  end
  local put_off = t.PutOff or t.Incomplete and not whole_now() and t.Incomplete
  if not put_off then
    local more = ordered(lane) and wake(lane, key)
    local look = visit(lane, key, t)
    set_look(lane, more and look and now or look)
  else
    set_look(lane, redis.call('EXISTS', key) == 1 and put_off or nil)
  end
end

if #calm > 0 then
  redis.call('ZREM', places, unpack(calm))
end
if #called > 0 then
  redis.call('ZADD', places, unpack(called))
end
for _, topic in ipairs(plan.topics) do
  if topic.Paced and topic.taken > 0 then
    local token = string.format('%.3f', topic.Pace.Next + topic.taken * topic.Pace.Interval)
    redis.call('HSET', tokens, topic.Name, token)
    changed[#changed + 1], changed[#changed + 2] = topic.Name, token
  end
  for slot, w in ipairs(topic.waiting) do
    set_look(w.lane, topic.Slots[slot] + w.late)
  end
  -- A lane that was called may have had no use for its place, so another one is called.
  if topic.Limit and room > 0 and topic_flight(topic) < topic.Limit then
    call_lane(places, topic.Name, now)
  end
end
if #looks > 0 then
  redis.call('ZADD', lanes, unpack(looks))
end
forget_lanes(lanes, ranks, index, without_jobs)
for lane in pairs(earlier) do
  redis.call('ZADD', lanes, 'LT', now, lane)
end
if plan.closed then
  redis.call('HDEL', circuits, unpack(plan.closed))
end
if #hints > 0 then
  redis.call('RPUSH', ready, unpack(hints))
end
write_counts(counts, busy)
local head = redis.call('ZRANGE', lanes, '0', '0', 'WITHSCORES')[2]
if head then
  reply[2] = math.floor(tonumber(head))
end
if room <= 0 and cap - redis.call('LLEN', ready) <= 0 then
  reply[3] = 1
end
return reply
