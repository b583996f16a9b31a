-- For carrying. Lanes of a topic that go before others are its higher ranks: 1 is
-- that of the highest priority. Siblings are the lanes of one topic and endpoint.
local RANKS = 'ABCDMwxyz'
local RIVALS = 64 -- of one kind, at most
local LANES_FROM, BUCKETS_FROM = 7, 12 -- of carry.lua: in ARGV, and in KEYS

local function rank_of(lane)
  local letter = string.match(lane, '|(%a)|')
  return string.find(RANKS, letter, 1, true)
end

-- missing_rivals gives lanes that are not among those given, and may have jobs that
-- go before theirs: all siblings, and of other endpoints some of those with a priority
-- and of those that wait for a place, the first ones first.
local function missing_rivals(lanes, ranks, places, limits, now)
  local known, missing, asked = {}, {}, {}
  for i = LANES_FROM, #ARGV, 2 do
    known[ARGV[i]] = true
  end
  -- want wants those of some lanes that are there, and of which look is true.
  local function want(names, look)
    if #names == 0 then
      return
    end
    for n, at in ipairs(redis.call('ZMSCORE', lanes, unpack(names))) do
      if at and not known[names[n]] and look(tonumber(at)) then
        known[names[n]] = true
        missing[#missing + 1] = names[n]
      end
    end
  end
  local function any()
    return true
  end
  for i = LANES_FROM, #ARGV, 2 do
    local lane = ARGV[i]
    local topic = topic_of(lane)
    local first, last = '[' .. topic .. '|', '(' .. topic .. '}'
    if asked[topic] == nil then
      local of = limits[topic]
      local with_priority = redis.call('ZRANGE', ranks, first, last, 'BYLEX', 'LIMIT', 0, RIVALS)
      asked[topic] = #with_priority > 0
      if asked[topic] and #missing < RIVALS then
        want(with_priority, of and of.interval > 0 and any or function(at) return at <= now end)
        want(redis.call('ZRANGE', places, first, last, 'BYLEX', 'LIMIT', 0, RIVALS), any)
      end
    end
    if asked[topic] then
      local plain = plain_of(lane)
      local siblings = {}
      for letter in string.gmatch(RANKS, '%a') do
        siblings[#siblings + 1] = topic .. '|' .. letter .. string.sub(plain, #topic + 3)
      end
      want(siblings, any)
    end
  end
  return missing
end

-- first_sibling reports whether no sibling of the lane was asked about before.
local seen = {}
local function first_sibling(lane)
  local plain = plain_of(lane)
  local first = not seen[plain]
  seen[plain] = true
  return first
end

-- What the lanes of a topic with priorities have among them, by topic.
local common = {}
local function common_of(lane)
  return common[topic_of(lane)]
end

-- by_priority gives the numbers of the lanes in the order in which they are served:
-- those of a topic by rank, at the places where lanes of the topic stand.
local function by_priority()
  local order, topics, met = {}, {}, {}
  for n = 0, #KEYS - BUCKETS_FROM do
    local lane = ARGV[LANES_FROM + 2 * n]
    local topic, rank = topic_of(lane), rank_of(lane)
    local of = topics[topic]
    if not of then
      of = { numbers = {}, siblings = 0, waiting = {}, with_priority = false }
      topics[topic] = of
    end
    of.numbers[#of.numbers + 1] = n
    of.waiting[rank] = (of.waiting[rank] or 0) + 1
    of.with_priority = of.with_priority or rank ~= 5
    if not met[plain_of(lane)] then
      met[plain_of(lane)] = true
      of.siblings = of.siblings + 1
    end
  end
  for topic, of in pairs(topics) do
    local sorted = {}
    for i, n in ipairs(of.numbers) do
      sorted[i] = n
    end
    table.sort(sorted, function(a, b)
      local rank_a, rank_b = rank_of(ARGV[LANES_FROM + 2 * a]), rank_of(ARGV[LANES_FROM + 2 * b])
      return rank_a < rank_b or rank_a == rank_b and a < b
    end)
    for i, n in ipairs(of.numbers) do
      order[n] = sorted[i]
    end
    if of.with_priority then
      common[topic] = of
    end
  end
  return order
end

-- share_among is how many jobs of a lane may be carried, of what its topic may with
-- a quantum for each endpoint. Once a lane has more to carry than its share, those
-- that go after it get nothing.
local function share_among(of, lane, quantum)
  local rank = rank_of(lane)
  of.left = of.left or quantum * of.siblings
  if of.cut and of.cut < rank then
    return 0
  end
  local share = math.ceil(math.max(0, of.left) / of.waiting[rank])
  of.waiting[rank] = of.waiting[rank] - 1
  return share
end

-- out_of_lane is how many jobs of a lane and its siblings are out.
local function out_of_lane(of, lane, bucket)
  if not of then
    return redis.call('ZCOUNT', bucket, '-inf', '(0')
  end
  local total = 0
  for _, n in ipairs(of.numbers) do
    if plain_of(ARGV[LANES_FROM + 2 * n]) == plain_of(lane) then
      total = total + redis.call('ZCOUNT', KEYS[BUCKETS_FROM + n], '-inf', '(0')
    end
  end
  return total
end

-- first_to_go sorts lanes by rank, and gives the highest; nil if there are none.
local function first_to_go(waiting)
  local at = {}
  for i, lane in ipairs(waiting) do
    at[lane] = i
  end
  table.sort(waiting, function(a, b)
    local rank_a, rank_b = rank_of(a), rank_of(b)
    return rank_a < rank_b or rank_a == rank_b and at[a] < at[b]
  end)
  return waiting[1] and rank_of(waiting[1])
end
