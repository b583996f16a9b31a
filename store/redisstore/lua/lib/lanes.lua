-- Lanes. The ZSET lanes has when each lane next needs a look. The ZSET index has the score 0
-- for all: t<topic> of each topic with jobs, d<topic> of each that may have ended ones
-- other than dead letters, l<lane> and e<endpoint> <lane> of each lane. The ZSET ranks has
-- the lanes with a priority, the ZSET places lanes that wait because as many jobs of their
-- topic are in flight as may be; one that waits for a place of its own stands there as =lane, and
-- one that waits because as many jobs of its topic are ready as may be stands there as +lane.

-- look_at schedules a look at a lane, at ms or earlier. A batch writes its looks once. Carriers
-- look at a lane of a pull queue only when a lease of it ends: without leased, consumers look.
local earlier, pulls = {}, {}
local function look_at(lane, ms, leased)
  if not leased and is_pulled(lane) then
    local topic = topic_of(lane)
    pulls[topic] = math.min(pulls[topic] or ms, ms)
    ms = NEVER
  end
  if not earlier[lane] or ms < earlier[lane] then
    earlier[lane] = ms
  end
end

-- open_until is until when the circuit of a lane's endpoint is open, or nil. It is stored as
-- "<open until> <half-open until>", then as "<start>" of the ramp.
local function open_until(lane, now)
  local till = string.match(redis.call('HGET', circuits, endpoint_of(lane)) or '', '^(%d+) ')
  till = tonumber(till)
  return till and till > now and till or nil
end

-- call_some schedules looks at up to most lanes of a topic that wait for a place, or with HINT
-- before its name for a hint. They are neighbours from a random one on: a search by rank is short.
local HINT = '+'
local function call_some(topic, most, now)
  local waiting = redis.call('ZLEXCOUNT', places, '[' .. topic .. '|', '(' .. topic .. '}')
  most = math.min(most, waiting, CALLS)
  if most <= 0 then
    return
  end
  local at = redis.call('ZLEXCOUNT', places, '-', '(' .. topic .. '|') + micros % (waiting - most + 1)
  local called = redis.call('ZRANGE', places, at, at + most - 1)
  redis.call('ZREM', places, unpack(called))
  for _, name in ipairs(called) do
    look_at(string.sub(name, 1, 1) == HINT and string.sub(name, 2) or name, now)
  end
end

-- call_hinted schedules a look for each job that is no longer ready because of this batch.
local function call_hinted(now)
  local free = {}
  for lane, states in pairs(counted) do
    if (states[READY] or 0) < 0 then
      add(free, topic_of(lane), -states[READY])
    end
  end
  for topic, n in pairs(free) do
    call_some(HINT .. topic, n, now)
  end
end

-- call_lanes schedules a look for each place that became free in this batch.
local function call_lanes(now)
  call_hinted(now)
  for lane, states in pairs(counted) do
    local free = -((states[READY] or 0) + (states[RUNNING] or 0))
    if free > 0 and redis.call('ZREM', places, '=' .. lane) == 1 then
      look_at(lane, now)
    end
    call_some(topic_of(lane), free, now)
  end
end

-- check_types fails the call if another program has written a key that write_lanes and write_counts
-- use: the jobs would be stored without it.
local function check_types()
  redis.call('HLEN', counts)
  redis.call('ZCARD', lanes)
  redis.call('ZCARD', ranks)
  redis.call('ZCARD', index)
  redis.call('ZCARD', busy)
end

-- index_lanes names new lanes (each behind its score) in ranks and index.
local function index_lanes(looks)
  local names, ranked = {}, {}
  for i = 2, #looks, 2 do
    local lane, n = looks[i], #names
    names[n + 1], names[n + 2] = 0, 'l' .. lane
    names[n + 3], names[n + 4] = 0, 'e' .. endpoint_of(lane) .. ' ' .. lane
    names[n + 5], names[n + 6] = 0, 't' .. topic_of(lane)
    if has_priority(lane) then
      ranked[#ranked + 1], ranked[#ranked + 2] = 0, lane
    end
  end
  redis.call('ZADD', index, unpack(names))
  if #ranked > 0 then
    redis.call('ZADD', ranks, unpack(ranked))
  end
end

-- write_lanes writes the gathered looks. A carrier hears of it on the channel if the earliest
-- look of all moved. Without a channel the looks are ends of leases. A script without places
-- frees none, and one without index has no new lane. Consumers hear of a pull queue on a channel
-- of their own.
local function write_lanes(channel, now)
  local any_open = channel and redis.call('EXISTS', circuits, places or circuits) > 0
  if any_open and places and redis.call('EXISTS', places) == 1 then
    call_lanes(now)
  end
  if not next(earlier) then
    return
  end
  for topic, ms in pairs(channel and pulls or {}) do
    redis.call('PUBLISH', channel .. PULL_CHANNEL, text(ms) .. ' ' .. topic)
  end
  local looks, first = {}, nil
  for lane, ms in pairs(earlier) do
    local till = any_open and open_until(lane, now)
    ms = till and math.max(till, ms) or ms
    first = math.min(first or ms, ms)
    looks[#looks + 1] = text(ms)
    looks[#looks + 1] = lane
  end
  local head = channel and redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  if redis.call('ZADD', lanes, 'LT', unpack(looks)) > 0 and index then
    index_lanes(looks)
  end
  if channel and (not head or first < tonumber(head)) then
    redis.call('PUBLISH', channel, '')
  end
end

-- next_look is when the bucket of a lane next needs a look; nil when it is empty.
local function next_look(bucket, lane)
  if is_pulled(lane) then
    local first = redis.call('ZRANGE', bucket, '0', '0', 'WITHSCORES')[2]
    local state, ms = place(tonumber(first or 0))
    return first and (state < READY and NEVER or ms)
  end
  local some = redis.call('ZRANGE', bucket, '0', '3', 'WITHSCORES')
  local first = nil
  for i = 2, #some, 2 do
    local state, ms = place(tonumber(some[i]))
    first = math.min(first or ms, ms)
    if state < READY then
      return first
    end
  end
  if #some < 8 then
    return first
  end
  local waiting = redis.call('ZRANGE', bucket, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  return waiting and math.min(first, math.floor(tonumber(waiting))) or first
end

-- leave_places has lanes wait for a place or a hint of their topics no longer.
local function leave_places(some)
  if places and #some > 0 and redis.call('EXISTS', places) == 1 then
    local hinted = {}
    for n, lane in ipairs(some) do
      hinted[n] = HINT .. lane
    end
    redis.call('ZREM', places, unpack(some))
    redis.call('ZREM', places, unpack(hinted))
  end
end

-- forget_lanes forgets lanes without jobs.
local function forget_lanes(gone)
  if #gone == 0 then
    return
  end
  local names, ranked = {}, {}
  for _, lane in ipairs(gone) do
    names[#names + 1] = 'l' .. lane
    names[#names + 1] = 'e' .. endpoint_of(lane) .. ' ' .. lane
    if has_priority(lane) then
      ranked[#ranked + 1] = lane
    end
    earlier[lane] = nil
  end
  redis.call('ZREM', lanes, unpack(gone))
  redis.call('ZREM', index, unpack(names))
  leave_places(gone)
  if #ranked > 0 then
    redis.call('ZREM', ranks, unpack(ranked))
  end
end

-- leave_lanes forgets lanes, by their buckets, that have lost their last job. With now it has
-- the others looked at no sooner than they need it, unless a parked job of theirs may have
-- been called. It returns how many it forgot.
local function leave_lanes(left, now)
  local gone = {}
  for bucket, lane in pairs(left) do
    if redis.call('EXISTS', bucket) == 0 then
      gone[#gone + 1] = lane.name
    elseif not ordered(lane.name) then
      local look = now and next_look(bucket, lane.name)
      if look and look > now then
        redis.call('ZADD', lanes, 'XX', 'GT', look, lane.name)
      end
    end
  end
  forget_lanes(gone)
  return #gone
end
