-- For scripts that obey limits of topics. The hash topics has them as JSON: store.Limits with
-- Share, the shard's share of Capacity.

-- limits_of returns the limits of a topic; nil or false for none. Unreadable ones count as none.
local limits, any_limits = {}, nil
local function limits_of(topic)
  if any_limits == nil then
    any_limits = redis.call('EXISTS', topics) == 1
  end
  if any_limits and limits[topic] == nil then
    local readable, found = pcall(cjson.decode, redis.call('HGET', topics, topic) or '')
    limits[topic] = readable and found
  end
  return limits[topic]
end

-- is_paused reports whether limits pause their topic now.
local function is_paused(of, now)
  return of.Paused and (not of.PausedUntil or now < of.PausedUntil)
end

-- stops_on_dead reports whether dead letters of a topic stop their order keys.
local function stops_on_dead(topic)
  local of = limits_of(topic)
  return of and of.StopOnDead
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

-- refusal is why a topic takes no more jobs, or nil. Each call without one takes a place. Some
-- jobs obey the capacity only.
local rooms = {}
local function refusal(topic, capacity_only)
  local of = limits_of(topic)
  if not of then
    return nil
  elseif of.Draining and not capacity_only then
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
