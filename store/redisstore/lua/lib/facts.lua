-- The facts of a plan. They are compared, and read when the plan was made from
-- others: the limits and tokens of topics, the circuits of endpoints, and the rivals of lanes.

-- names returns what of returns for each of some lanes, once.
local function names(given, of)
  local all, seen = {}, {}
  for _, lane in ipairs(given) do
    local name = of(lane)
    if not seen[name] then
      seen[name] = true
      all[#all + 1] = name
    end
  end
  return all
end

-- read_fields returns fields of a hash, false for those that are not there, and whether they
-- are as the plan has them.
local function read_fields(hash, fields, planned)
  local values, same = redis.call('HMGET', hash, unpack(fields)), true
  for n, field in ipairs(fields) do
    same = same and (values[n] or nil) == planned[field]
  end
  return values, same
end

-- rivals_of returns lanes that may go before others, in topics with priorities: some with a
-- priority that are due, or wait for a rate; some that wait for a place of the topic; and all
-- of the same topics and endpoints.
local function rivals_of(given, in_topics, tokens_of, now)
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
  for n, topic in ipairs(in_topics) do
    local from, to = '[' .. topic .. '|', '(' .. topic .. '}'
    local some = redis.call('ZRANGE', ranks, from, to, 'BYLEX', 'LIMIT', '0', RIVALS)
    with_priority[topic] = #some > 0
    if #some > 0 and #rivals < RIVALS then
      add(some, tokens_of[n] and math.huge or now)
      add(redis.call('ZRANGE', places, from, to, 'BYLEX', 'LIMIT', '0', RIVALS), math.huge)
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

-- lacking returns the facts if the plan was made from others, or nil: topics, their limits and
-- tokens, endpoints, their circuits (false for none), and rivals that the plan has not.
local function lacking(plan, given, now)
  if not plan.limits and not plan.circuits and redis.call('EXISTS', circuits, topics, ranks) == 0 then
    return nil
  end
  local in_topics, at_endpoints = names(given, topic_of), names(given, endpoint_of)
  local limits, same_limits = read_fields(topics, in_topics, plan.limits or {})
  local next, same_tokens = read_fields(tokens, in_topics, plan.tokens or {})
  local states, same_circuits = read_fields(circuits, at_endpoints, plan.circuits or {})
  local rivals = {}
  if not plan.with_rivals and redis.call('EXISTS', ranks) == 1 then
    rivals = rivals_of(given, in_topics, next, now)
  end
  if #rivals > 0 or not (same_limits and same_tokens and same_circuits) then
    return { in_topics, limits, next, at_endpoints, states, rivals }
  end
end
