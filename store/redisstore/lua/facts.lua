-- Reads the facts for a plan of store/rules, and makes heads of order keys due that were
-- parked. The plan is old when the number in plan has changed.
-- KEYS own, then each lane's bucket
-- ARGV endpoints (1: endpoints have limits), rivals (1: look for rivals), then the lanes, if any
-- Returns now, the number of the plan, the length of the ready list, the ready jobs of the shard
--   without those of pull queues; a list for each topic: its name, limits ('': none), token ('':
--   none), jobs in flight and ready jobs; for each
--   endpoint: its name, circuit and jobs in flight; the rivals; for each lane: its jobs in
--   flight that are due again, its waiting jobs that are due, all its jobs in flight, and
--   when the first waiting job after those is due, of a lane of a pull queue. With
--   rivals the lanes are left out: they are counted together.
local now = now_ms()
local given = { unpack(ARGV, 3) }
local AGAIN = now + 1 - BASE -- jobs in flight with lower scores are due again

-- names returns what of returns for each of some lanes, once.
local function names(some, of)
  local all, seen = {}, {}
  for _, lane in ipairs(some) do
    local name = of(lane)
    if not seen[name] then
      seen[name] = true
      all[#all + 1] = name
    end
  end
  return all
end

local function facts_of_topics(in_topics, any_limits)
  local facts, limited, by_topic = {}, {}, {}
  local all, ready = in_flight(in_topics)
  for n, topic in ipairs(in_topics) do
    facts[n] = { topic, '', '', all[n], ready[n] }
    by_topic[topic] = facts[n]
  end
  for n, of in ipairs(any_limits and redis.call('HMGET', topics, unpack(in_topics)) or {}) do
    if of then
      facts[n][2] = of
      limited[#limited + 1] = in_topics[n]
    end
  end
  for n, token in ipairs(#limited > 0 and redis.call('HMGET', tokens, unpack(limited)) or {}) do
    by_topic[limited[n]][3] = token or ''
  end
  return facts
end

-- all_ready counts the ready jobs of the shard.
local function all_ready()
  local found = redis.call('HMGET', counts, OF_STATE[READY], '=' .. string.sub(PULLED, 2) .. OF_STATE[READY])
  return (found[1] or 0) - (found[2] or 0)
end

local function facts_of_endpoints()
  local all, facts, prefixed = names(given, endpoint_of), {}, {}
  local states = redis.call('HMGET', circuits, unpack(all))
  for n, endpoint in ipairs(all) do
    facts[n], prefixed[n] = { endpoint, states[n] or '' }, '=' .. endpoint
  end
  for n, count in ipairs(in_flight(prefixed)) do
    facts[n][3] = count
  end
  return facts
end

-- rivals_of returns lanes that may go before others, in topics with priorities: some with a
-- priority that are due, or wait for a rate; some that wait for a place of the topic; and all
-- of the same topics and endpoints.
local function rivals_of(in_topics, limited)
  local known, rivals, with_priority = {}, {}, {}
  for _, lane in ipairs(given) do
    known[lane] = true
  end
  local function add(some, till)
    for n, at in ipairs(#some > 0 and redis.call('ZMSCORE', lanes, unpack(some)) or {}) do
      if at and not known[some[n]] and tonumber(at) <= till then
        known[some[n]] = true
        rivals[#rivals + 1] = some[n]
      end
    end
  end
  local paced = {}
  for _, of in ipairs(limited) do
    paced[of[1]] = of[3] ~= ''
  end
  for _, topic in ipairs(in_topics) do
    local from, to = '[' .. topic .. '|', '(' .. topic .. '}'
    local some = redis.call('ZRANGE', ranks, from, to, 'BYLEX', 'LIMIT', '0', RIVALS)
    with_priority[topic] = #some > 0
    if #some > 0 and #rivals < RIVALS then
      add(some, paced[topic] and math.huge or now)
      add(redis.call('ZRANGE', places, from, to, 'BYLEX', 'LIMIT', '0', RIVALS), math.huge)
      local hinted = redis.call('ZRANGE', places, '[+' .. topic .. '|', '(+' .. topic .. '}', 'BYLEX', 'LIMIT', '0', RIVALS)
      for n, name in ipairs(hinted) do
        hinted[n] = string.sub(name, 2)
      end
      add(hinted, math.huge)
    end
  end
  local siblings, seen = {}, {}
  for _, some in ipairs({ given, rivals }) do
    for _, lane in ipairs(some) do
      local topic, endpoint = topic_of(lane), endpoint_of(lane)
      local name = topic .. '|' .. endpoint
      if with_priority[topic] and not seen[name] then
        seen[name] = true
        for letter in string.gmatch(LETTERS, '.') do
          siblings[#siblings + 1] = topic .. '|' .. letter .. '|' .. endpoint
        end
      end
    end
  end
  add(siblings, math.huge)
  return rivals
end

-- wake makes parked heads of order keys due.
local WOKEN = 500
local function wake(lane, key)
  local called = redis.call('ZRANGE', calls, '[' .. lane .. '|', '(' .. lane .. '}', 'BYLEX', 'LIMIT', '0', text(WOKEN))
  if #called == 0 then
    return
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
end

-- next_in is when the first of a bucket's jobs that are not due yet is due; of a lane of a pull queue.
local function next_in(lane, key)
  if is_pulled(lane) then
    local first = redis.call('ZRANGE', key, text(now + 1), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
    return first and math.floor(tonumber(first)) or nil
  end
end

-- count_lane counts a lane's jobs. A bucket of a few entries is read at once.
local FEW, LAST_OF_FEW = 3, '3'
local function count_lane(key)
  local again, waiting, out = 0, 0, 0
  local first = redis.call('ZRANGE', key, '0', LAST_OF_FEW, 'WITHSCORES')
  if #first > 2 * FEW then
    local earliest = tonumber(first[2])
    if earliest < 0 then
      out = redis.call('ZCOUNT', key, '-inf', '(0')
      again = earliest < AGAIN and redis.call('ZCOUNT', key, '-inf', '(' .. text(AGAIN)) or 0
    end
    return { again, redis.call('ZCOUNT', key, '0', '(' .. text(now + 1)), out }
  end
  for i = 2, #first, 2 do
    local at = tonumber(first[i])
    out = out + (at < 0 and 1 or 0)
    again = again + (at < AGAIN and 1 or 0)
    waiting = waiting + (at >= 0 and at < now + 1 and 1 or 0)
  end
  return { again, waiting, out }
end

local of_topics, of_endpoints, rivals, of_lanes = {}, {}, {}, {}
local special = #given > 0 and redis.call('EXISTS', topics, ranks, circuits) > 0
if #given > 0 then
  local in_topics = names(given, topic_of)
  of_topics = facts_of_topics(in_topics, special)
  if special and ARGV[2] == '1' and redis.call('EXISTS', ranks) == 1 then
    rivals = rivals_of(in_topics, of_topics)
  end
end
if special or ARGV[1] == '1' then
  of_endpoints = facts_of_endpoints()
end
-- Few of the lanes that a pull queue may have exist.
local held = #given > 0 and redis.call('ZMSCORE', lanes, unpack(given))
for n, lane in ipairs(#rivals == 0 and given or {}) do
  local key = KEYS[OWN_KEYS + n]
  if not held[n] then
    of_lanes[n] = { 0, 0, 0 }
  else
    if ordered(lane) then
      wake(lane, key)
    end
    of_lanes[n] = count_lane(key)
    of_lanes[n][4] = next_in(lane, key)
  end
end
return { now, redis.call('GET', plan) or '0', redis.call('LLEN', ready), all_ready(), of_topics, of_endpoints, rivals, of_lanes }
