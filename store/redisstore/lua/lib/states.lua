-- Counts of jobs: the hash counts has topic|state, |state of all topics, and
-- =endpoint|state of unfinished jobs. The ZSET busy has the topic|state of which MANY jobs
-- or more wait. Its score is wrong by up to a factor of two, so it is seldom written.

-- counts_of is by how many a lane's jobs in each state become more. A batch writes the sums once.
local counted = {}
local function counts_of(lane)
  local of = counted[lane]
  if not of then
    of = {}
    counted[lane] = of
  end
  return of
end

-- count notes in what counts_of returned that jobs enter (or with n < 0 leave) a state.
local function count(of, state, n)
  of[state] = (of[state] or 0) + n
end

-- move notes that a job goes from one state to another.
local function move(of, from, to)
  of[from] = (of[from] or 0) - 1
  of[to] = (of[to] or 0) + 1
end

local function add(sums, field, n)
  sums[field] = (sums[field] or 0) + n
end

-- note_busy keeps busy true after a count went from before to sum.
local function note_busy(field, before, sum)
  local _, was = math.frexp(before)
  local _, is = math.frexp(sum)
  if sum < MANY then
    redis.call('ZREM', busy, field)
  elseif was ~= is then
    redis.call('ZADD', busy, sum, field)
  end
end

-- write_counts writes what was counted. It returns the fields of counts that are gone.
local function write_counts()
  local sums, waits = {}, {}
  for lane, states in pairs(counted) do
    local topic, endpoint = topic_of(lane), '=' .. endpoint_of(lane)
    for state, n in pairs(states) do
      local of_state = OF_STATE[state] or '|' .. state -- or a score that nobody should have written
      local field = topic .. of_state
      add(sums, field, n)
      add(sums, of_state, n)
      if state < FINAL then
        add(sums, endpoint .. of_state, n)
        waits[field] = state < READY
      end
    end
  end
  local fields, written, gone = {}, {}, {}
  for field, n in pairs(sums) do
    if n ~= 0 then
      fields[#fields + 1] = field
    end
  end
  if #fields == 0 then
    return gone
  end
  for i, found in ipairs(redis.call('HMGET', counts, unpack(fields))) do
    local field = fields[i]
    local before = tonumber(found or 0)
    local sum = before + sums[field]
    if sum <= 0 then
      gone[#gone + 1] = field
    else
      local at = #written
      written[at + 1], written[at + 2] = field, text(sum)
    end
    if waits[field] and (sum >= MANY or before >= MANY) then
      note_busy(field, before, sum)
    end
  end
  if #written > 0 then
    redis.call('HSET', counts, unpack(written))
  end
  if #gone > 0 then
    redis.call('HDEL', counts, unpack(gone))
  end
  return gone
end

-- in_flight reads how many jobs are in flight of topics, or of endpoints with '=' before
-- their names, and how many of them are ready.
local function in_flight(all)
  local fields = {}
  for n, name in ipairs(all) do
    fields[2 * n - 1], fields[2 * n] = name .. OF_STATE[READY], name .. OF_STATE[RUNNING]
  end
  local found, sums, ready = redis.call('HMGET', counts, unpack(fields)), {}, {}
  for n = 1, #all do
    ready[n] = tonumber(found[2 * n - 1] or 0)
    sums[n] = ready[n] + (found[2 * n] or 0)
  end
  return sums, ready
end

-- drop_topics takes topics without jobs out of the index; gone is what write_counts returned.
local function drop_topics(gone)
  for _, field in ipairs(gone) do
    local topic = string.match(field, '^([^|=]+)|')
    if topic then
      local fields, left = {}, false
      for state = 0, LAST do
        fields[state + 1] = topic .. OF_STATE[state]
      end
      local found = redis.call('HMGET', counts, unpack(fields))
      for n = 1, #fields do
        left = left or found[n]
      end
      if not left then
        redis.call('ZREM', index, 't' .. topic)
      end
    end
  end
end
