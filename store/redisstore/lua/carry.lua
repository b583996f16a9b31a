-- Moves due jobs of some lanes to the ready list. They stay in their buckets,
-- out until their visibility deadline, so a lost hint loses nothing.
-- KEYS lanes counts held ready, then the lanes' buckets
-- ARGV cap batch visibility lane_limit (0: none) probe_limit, then the lanes
-- Returns now, when the earliest lane next needs a look (-1: there is none),
--   1 if more was due than might go, then hint and state for each job carried.
local lanes, counts, held, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local cap, batch, visibility = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local lane_limit, probe_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local FIRST = 5 -- of the lanes in KEYS is FIRST, in ARGV FIRST + 1
local now = now_ms()
local room = math.min(batch, cap - redis.call('LLEN', ready))
local quantum = math.max(1, math.ceil(room / math.max(1, #KEYS - FIRST + 1)))
local holds = redis.call('EXISTS', held) == 1
local full = 0
local reply = { now, -1, 0 }

-- take carries entries (id and score in turn) of a lane, and says how many.
local function take(lane, bucket, entries)
  if #entries == 0 then
    return 0
  end
  local topic = string.match(lane, '^[^|]*')
  local rescored, hints = {}, {}
  local out = score(READY, now + visibility)
  for i = 1, #entries, 2 do
    local state = place(tonumber(entries[i + 1]))
    local hint = lane .. '|' .. entries[i]
    rescored[#rescored + 1] = out
    rescored[#rescored + 1] = entries[i]
    hints[#hints + 1] = hint
    reply[#reply + 1] = hint
    reply[#reply + 1] = state
    count(topic, state, -1)
    count(topic, READY, 1)
  end
  redis.call('ZADD', bucket, unpack(rescored))
  redis.call('RPUSH', ready, unpack(hints))
  room = room - #hints
  return #hints
end

for i = 1, #KEYS - FIRST + 1 do
  local lane, bucket = ARGV[FIRST + i], KEYS[FIRST + i - 1]
  local till, limit = nil, lane_limit
  if holds then
    till = hold_of(held, lane, now)
    if till and till <= now then
      till, limit = nil, probe_limit
    end
  end
  local look
  if till then
    if redis.call('EXISTS', bucket) == 1 then
      look = till
    end
  elseif room <= 0 then
    -- Not served this time: it keeps its place in the line.
    look = next_look(bucket)
    if look and look <= now then
      look = tonumber(redis.call('ZSCORE', lanes, lane) or look)
    end
  else
    local share = math.min(quantum, room)
    local limited = false
    -- What is out and lapsed comes first: it holds places of the limit.
    share = share - take(lane, bucket, redis.call('ZRANGE', bucket, '-inf',
      '(' .. string.format('%.0f', now + 1 - BASE), 'BYSCORE', 'LIMIT', 0, share, 'WITHSCORES'))
    if limit > 0 then
      local free = limit - redis.call('ZCOUNT', bucket, '-inf', '(0')
      limited = free < share
      share = math.min(share, free)
    end
    if share > 0 then
      take(lane, bucket, redis.call('ZRANGE', bucket, 0, '(' .. string.format('%.0f', now + 1), 'BYSCORE', 'LIMIT', 0,
        share, 'WITHSCORES'))
    end
    look = next_look(bucket)
    if look and look <= now then
      -- More is due. To the back of the line, behind lanes that became due
      -- before now; at its limit, until a place may have come free.
      look = now
      if limited then
        look = now + 10
        full = 1
      end
    end
  end
  if look then
    redis.call('ZADD', lanes, look, lane)
  else
    redis.call('ZREM', lanes, lane)
  end
end
write_counts(counts)
local head = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
if head then
  reply[2] = math.floor(tonumber(head))
end
if room <= 0 and cap - redis.call('LLEN', ready) <= 0 then
  full = 1
end
reply[3] = full
return reply
