-- For scripts that obey limits of topics. The hash topics has them as JSON: store.Limits with
-- Share, the shard's share of Capacity.

-- limits_of_jobs reads the limits of the topics of a batch's jobs, by topic. Unreadable ones
-- count as none.
local function limits_of_jobs(jobs)
  local names, seen, found = {}, {}, {}
  for _, j in ipairs(jobs) do
    local topic = j.lane.topic
    if not seen[topic] then
      seen[topic] = true
      names[#names + 1] = topic
    end
  end
  local texts = redis.call('HMGET', topics, unpack(names))
  for n, topic in ipairs(names) do
    local readable, limits = pcall(cjson.decode, texts[n] or '')
    found[topic] = readable and limits or nil
  end
  return found
end

-- room_in is how many more unfinished jobs a topic may have, nil for any number.
local function room_in(of, topic)
  local room = of.Share
  if room then
    for _, n in ipairs(redis.call('HMGET', counts, topic .. '|0', topic .. '|1', topic .. '|2', topic .. '|3')) do
      room = room - (n or 0)
    end
  end
  return room
end

-- refusal is why a topic takes no more jobs, or nil. Each call without one takes a place.
local limits, rooms = {}, {}
local function refusal(topic)
  local of = limits[topic]
  if not of then
    return nil
  elseif of.Draining then
    return 'draining'
  end
  rooms[topic] = rooms[topic] or room_in(of, topic)
  if not rooms[topic] then
    return nil
  elseif rooms[topic] <= 0 then
    return 'full'
  end
  rooms[topic] = rooms[topic] - 1
end
