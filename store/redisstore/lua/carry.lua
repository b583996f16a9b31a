-- Carries a plan out: moves due jobs to the ready list. They stay in their buckets until
-- their visibility deadline, so a lost hint loses nothing. The script decides nothing.
-- KEYS own, then each lane's bucket, and those of the crowd
-- ARGV plan (its number, see facts.lua), visibility, pulled (1: the caller claims the jobs
--      itself, and nothing goes to the ready list), how many due lanes to return, then lists behind their lengths:
--      topics: name, new token ('': as it was), most jobs in flight (0: any number), ready jobs
--      after this plan, how many lanes that wait for a hint to call
--      endpoints whose stored circuits have closed
--      lanes that wait for a place: number, name in places, most jobs in flight, look
--      lanes: name, how many go that are in flight and due again, how many others, look ('': when
--      the bucket needs one, '-': as it was)
--      the crowd, other lanes that wait for a place: name, name in places, look
-- Returns now, and nothing else if the plan is old. Otherwise now, the length of the ready
--   list and the first lanes with their looks (AT_ONCE, or more due ones), unless pulled, then lists of carried jobs: the
--   number of their lane, their state, their ids. If more lanes are due, AT_ONCE of the latest due ones follow the first, some of
--   them again: other topics may be behind the many lanes of one.
local visibility, pulled, now = tonumber(ARGV[2]), ARGV[3] == '1', now_ms()
if (redis.call('GET', plan) or '0') ~= ARGV[1] then
  return { now }
end

-- list reads the next list. Each item has so many arguments.
local read = 4
local function list(each)
  local items, length = {}, tonumber(ARGV[read + 1])
  for n = 1, length do
    items[n] = { unpack(ARGV, read + 2 + (n - 1) * each, read + 1 + n * each) }
  end
  read = read + 1 + length * each
  return items
end
local planned, closed, waiting, given = list(5), list(1), list(4), list(4)
local crowd = list(3)

local hints, reply, any = {}, { now, 0, {} }, false
local carried_score = score(READY, now + visibility)

-- take carries up to most entries of a bucket with scores from low to below high.
local function take(number, lane, key, low, high, most)
  local found = redis.call('ZRANGE', key, low, '(' .. text(high), 'BYSCORE', 'LIMIT', '0', most, 'WITHSCORES')
  local rescored, jobs, n, counts, prefix = {}, nil, 0, counts_of(lane), lane .. '|'
  for i = 1, #found, 2 do
    local id, state = found[i], state_of(found[i + 1])
    rescored[i], rescored[i + 1] = carried_score, id
    if not jobs or jobs[2] ~= state then
      jobs, n = { number, state }, 2
      reply[#reply + 1] = jobs
    end
    n = n + 1
    jobs[n] = id
    if not pulled then
      hints[#hints + 1] = prefix .. id
    end
    move(counts, state, READY)
  end
  if #found > 0 then
    any = true
    redis.call('ZADD', key, unpack(rescored))
    if pulled then
      redis.call('ZADD', lanes, 'LT', text(now + visibility), lane)
    end
  end
end

-- is_called reports whether a head of an order key became due since the plan was made.
local function is_called(lane)
  return ordered(lane) and #redis.call('ZRANGE', calls, '[' .. lane .. '|', '(' .. lane .. '}', 'BYLEX', 'LIMIT', '0', '1') > 0
end

local looks, without_jobs, visited, needs = {}, {}, {}, {}
for n, l in ipairs(given) do
  local lane, again, fresh, look, key = l[1], l[2], l[3], l[4], KEYS[OWN_KEYS + n]
  visited[n] = lane
  if again ~= '0' then
    take(n, lane, key, '-inf', now + 1 - BASE, again)
  end
  if fresh ~= '0' then
    take(n, lane, key, '0', now + 1, fresh)
  end
  needs[n] = next_look(key, lane)
  if not needs[n] then
    without_jobs[#without_jobs + 1] = lane
  elseif look == '' then
    looks[#looks + 1], looks[#looks + 2] = text(is_called(lane) and now or needs[n]), lane
  elseif look ~= '-' then
    looks[#looks + 1], looks[#looks + 2] = text(math.max(tonumber(look), now)), lane
  end
end
write_counts()
leave_places(visited)
-- A place of the lane may have come free since the plan was made: then nobody calls it.
for _, w in ipairs(waiting) do
  local n, name, limit, look = tonumber(w[1]), w[2], tonumber(w[3]), tonumber(w[4])
  local lane, key = visited[n], KEYS[OWN_KEYS + n]
  if needs[n] then
    if name == '=' .. lane and redis.call('ZCOUNT', key, '-inf', '(0') < limit then
      look = now
    else
      redis.call('ZADD', places, '0', name)
      local state, ms = place(tonumber(redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]))
      look = state >= READY and math.min(look, ms) or look
    end
    looks[#looks + 1], looks[#looks + 2] = text(look), lane
  end
end
-- A lane with jobs in flight that are due again keeps its place in line.
local crowded = {}
for n, c in ipairs(crowd) do
  local lane, name, look = c[1], c[2], tonumber(c[3])
  local first = not is_pulled(lane) and redis.call('ZRANGE', KEYS[OWN_KEYS + #given + n], '0', '0', 'WITHSCORES')[2]
  if first then
    local state, ms = place(tonumber(first))
    look = state >= READY and math.min(look, ms) or look
    if look > now then
      looks[#looks + 1], looks[#looks + 2] = text(look), lane
      crowded[#crowded + 1], crowded[#crowded + 2] = '0', name
    end
  end
end
if #crowded > 0 then
  redis.call('ZADD', places, unpack(crowded))
end
local any_waits = redis.call('EXISTS', places) == 1
for _, topic in ipairs(planned) do
  local name, token, limit, ready, call = topic[1], topic[2], tonumber(topic[3]), tonumber(topic[4]), tonumber(topic[5])
  if token ~= '' then
    redis.call('HSET', tokens, name, token)
  end
  -- A place of the topic may have come free since, or a lane that was called had no use for
  -- its place. Others are called.
  if any_waits then
    local all, is_ready = in_flight({ name })
    if limit > all[1] then
      call_some(name, 1, now)
    end
    call_some(HINT .. name, math.min(AT_ONCE, call + math.max(0, ready - is_ready[1])), now)
  end
end
for _, endpoint in ipairs(closed) do
  redis.call('HDEL', circuits, endpoint[1])
end

if #looks > 0 then
  redis.call('ZADD', lanes, unpack(looks))
end
forget_lanes(without_jobs)
for lane in pairs(earlier) do
  redis.call('ZADD', lanes, 'LT', now, lane)
end
if any then
  redis.call('INCR', plan)
end
if not pulled then
  reply[2] = #hints > 0 and redis.call('RPUSH', ready, unpack(hints)) or redis.call('LLEN', ready)
  reply[3] = redis.call('ZRANGE', lanes, '0', text(AT_ONCE - 1), 'WITHSCORES')
  local last = reply[3][2 * AT_ONCE]
  if last and tonumber(last) <= now then
    if tonumber(ARGV[4]) > AT_ONCE then
      reply[3] = redis.call('ZRANGE', lanes, '-inf', text(now), 'BYSCORE', 'LIMIT', '0', ARGV[4], 'WITHSCORES')
    end
    for _, value in ipairs(redis.call('ZRANGE', lanes, text(now), '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', text(AT_ONCE), 'WITHSCORES')) do
      reply[3][#reply[3] + 1] = value
    end
  end
end
return reply
