-- Moves due jobs of some lanes to the ready list. They stay in their buckets,
-- out until their visibility deadline, so a lost hint loses nothing.
-- KEYS lanes counts out held ready, then the lanes' buckets
-- ARGV cap batch visibility endpoint_limit (0: none) probe_limit, then for each
--      lane: name, limit (0: none)
-- Returns now, when the earliest lane next needs a look (-1: there is none),
--   1 if the ready list is full, then hint and state for each job carried.
local lanes, counts, out, held, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local cap, batch, visibility = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local endpoint_limit, probe_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST = 6 -- of the buckets in KEYS, and of the lanes in ARGV
-- How long a lane at a limit is left alone: until a place may have come free.
-- Lanes of one endpoint are looked at together, or one of them could take
-- every place that comes free.
local LIMITED, RESTRAINED = 10, 100
-- While an endpoint ramps up its limit doubles from the probes' every STEP.
local STEP, STEPS = 1000, 10
local now = now_ms()
local room = math.min(batch, cap - redis.call('LLEN', ready))
local quantum = math.max(1, math.ceil(room / math.max(1, #KEYS - FIRST + 1)))
local gates = redis.call('EXISTS', held) == 1
local reply = { now, -1, 0 }

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
    local step = math.floor((now - v) / STEP)
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

-- places is how many more jobs of a lane may go out, nil for any number.
local function places(lane, bucket, lane_limit, restraint)
  local limit, free = nil, nil
  if endpoint_limit > 0 then
    limit = math.max(endpoint_limit, lane_limit)
  end
  if restraint then
    limit = math.min(limit or restraint, restraint)
  end
  if limit then
    free = limit - out_of(endpoint_of(lane))
  end
  if lane_limit > 0 then
    free = math.min(free or lane_limit, lane_limit - redis.call('ZCOUNT', bucket, '-inf', '(0'))
  end
  return free and math.max(0, free)
end

-- take carries entries (id and score in turn) of a lane, and says how many.
local function take(lane, bucket, entries)
  if #entries == 0 then
    return 0
  end
  local rescored, hints = {}, {}
  local till = score(READY, now + visibility)
  for i = 1, #entries, 2 do
    local state = place(tonumber(entries[i + 1]))
    local hint = lane .. '|' .. entries[i]
    rescored[#rescored + 1] = till
    rescored[#rescored + 1] = entries[i]
    hints[#hints + 1] = hint
    reply[#reply + 1] = hint
    reply[#reply + 1] = state
    count(lane, state, -1)
    count(lane, READY, 1)
  end
  redis.call('ZADD', bucket, unpack(rescored))
  redis.call('RPUSH', ready, unpack(hints))
  room = room - #hints
  return #hints
end

-- serve carries a lane's share, and says when it next needs a look.
local function serve(lane, bucket, lane_limit, restraint)
  local share = math.min(quantum, room)
  -- What is out and lapsed comes first: it holds places of the limits.
  share = share - take(lane, bucket, redis.call('ZRANGE', bucket, '-inf',
    '(' .. string.format('%.0f', now + 1 - BASE), 'BYSCORE', 'LIMIT', 0, share, 'WITHSCORES'))
  local free = places(lane, bucket, lane_limit, restraint)
  local limited = free and free < share
  share = math.min(share, free or share)
  if share > 0 then
    local taken = take(lane, bucket, redis.call('ZRANGE', bucket, 0, '(' .. string.format('%.0f', now + 1), 'BYSCORE',
      'LIMIT', 0, share, 'WITHSCORES'))
    if free then
      local endpoint = endpoint_of(lane)
      outs[endpoint] = out_of(endpoint) + taken
    end
  end
  local look = next_look(bucket)
  if not look or look > now then
    return look
  elseif not limited then
    return now -- more is due: to the back of the line, behind lanes that became due before
  end
  local pause = restraint and RESTRAINED or LIMITED
  return (math.floor(now / pause) + 1) * pause
end

for i = 0, #KEYS - FIRST do
  local lane, bucket, lane_limit = ARGV[FIRST + 2 * i], KEYS[FIRST + i], tonumber(ARGV[FIRST + 2 * i + 1])
  local till, restraint
  if gates then
    till, restraint = gate(endpoint_of(lane))
  end
  local look
  if till then
    if redis.call('EXISTS', bucket) == 1 then
      look = till
    end
  elseif room > 0 then
    look = serve(lane, bucket, lane_limit, restraint)
  else
    -- Not served this time: it keeps its place in the line.
    look = next_look(bucket)
    if look and look <= now then
      look = tonumber(redis.call('ZSCORE', lanes, lane) or look)
    end
  end
  if look then
    redis.call('ZADD', lanes, look, lane)
  else
    redis.call('ZREM', lanes, lane)
  end
end
write_counts(counts, out)
local head = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
if head then
  reply[2] = math.floor(tonumber(head))
end
if room <= 0 and cap - redis.call('LLEN', ready) <= 0 then
  reply[3] = 1
end
return reply
