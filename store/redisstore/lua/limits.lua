-- Shared by the scripts that obey limits of topics. They stand in the hash
-- topics: "<flags> <capacity> <interval> <concurrency> <weight> <all of it, for Go>".
-- flags: p paused, d draining, - neither. The numbers are the shard's part, 0 for
-- none; interval is that between two jobs, in milliseconds.

local function parse_limits(text)
  local flags, capacity, interval, concurrency, weight = string.match(text, '^(%S+) (%d+) (%S+) (%d+) (%d+) ')
  if not flags then
    return nil
  end
  return {
    paused = string.find(flags, 'p', 1, true) ~= nil, draining = string.find(flags, 'd', 1, true) ~= nil,
    capacity = tonumber(capacity), interval = tonumber(interval), concurrency = tonumber(concurrency),
    weight = tonumber(weight),
  }
end

-- limits_of reads the limits of the topics of lanes, by topic.
local function limits_of(topics, lanes)
  local names, seen, found = {}, {}, {}
  for _, lane in pairs(lanes) do
    local topic = topic_of(lane)
    if not seen[topic] then
      seen[topic] = true
      names[#names + 1] = topic
    end
  end
  local texts = redis.call('HMGET', topics, unpack(names))
  for n, topic in ipairs(names) do
    found[topic] = texts[n] and parse_limits(texts[n]) or nil
  end
  return found
end

-- limits_of_jobs reads the limits of the topics of a batch's jobs, by topic.
local function limits_of_jobs(topics, jobs)
  local lanes = {}
  for _, j in ipairs(jobs) do
    lanes[j.lane.name] = j.lane.name
  end
  return limits_of(topics, lanes)
end

-- room_in is how many more unfinished jobs a topic may have, nil for any number.
local function room_in(limits, counts, topic)
  if limits.capacity == 0 then
    return nil
  end
  local room = limits.capacity
  for _, n in ipairs(redis.call('HMGET', counts, topic .. '|0', topic .. '|1', topic .. '|2', topic .. '|3')) do
    room = room - (n or 0)
  end
  return room
end
