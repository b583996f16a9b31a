-- Shared by every script. Go puts the numbers of the states above this text.
--
-- A job's record is two fields of a page, which is a hash. What was asked for stands
-- under topic/id: "<head>\n<uid><spec>", its registration, which is not written again
-- unless a client changes it. What has happened since, if anything, stands under
-- topic/id+: "<head>\n<uid><log>", its progress. So bodies are not handled over and
-- over. Heads are text, so that they can be read with HGET; scripts never look behind
-- them but for the uid.
--
-- A registration's head is "<created> <due>", or with a TTL or a timeout
-- "<created> <due> <expires> <timeout>": due and expires in ms after created (empty
-- for none), or before.
--
-- A progress's head has the fields of render. Times are ms since 1970. An empty field
-- is the usual value: 0; 1 for version; none for times; but next, the time of the next
-- attempt, is then when the job was due at first, unless it has ended. Jobs that are
-- claimed or settled together mostly have the same head, which is read and written
-- once for all of them.
--
-- A bucket's entry is scored by when it next needs attention, with its state in
-- the fraction: ms + state/4. Entries that are out (ready or running) are shifted
-- below zero by BASE, so that how many there are, and which of them lapsed, are
-- both one look at the ZSET.
local BASE = 10000000000000
local SHORT = '^%d+ %-?%d+\n(................)' -- the uid
local LONG = '^(%d+) %-?%d+ (%-?%d*) (%d*)\n(................)'
local PROGRESS = '^(%d+) (%d*) (%d*) (%d*) (%d* %d* %d*) (%d*) (%d*) (%d*) (%d*) (%S*) (%S*) (%S*)$'

local micros = 0 -- of the second: as good as a random number
local function now_ms()
  local t = redis.call('TIME')
  micros = tonumber(t[2])
  return t[1] * 1000 + math.floor(micros / 1000)
end

-- text is a whole number as text, which many jobs of a batch share: Lua would
-- write each anew, as a fraction.
local texts = {}
local function text(n)
  local t = texts[n]
  if not t then
    t = string.format('%d', n)
    texts[n] = t
  end
  return t
end

-- number is a field as a number.
local function number(field, usual)
  return tonumber(field) or usual
end

-- progress_field is where the progress of a job named topic/id is: no name holds
-- the sign.
local function progress_field(name)
  return name .. '+'
end

-- render gives a head its text.
local function render(h)
  h.text = table.concat({
    text(h.state), h.token, h.version, h.cancel, h.tries, h.next, h.ended, h.expires, h.logs, h.nonce, h.reason, h.mark,
  }, ' ')
  return h
end

-- changed gives a copy of a head with new values for some of its fields.
local function changed(h, with)
  local new = {}
  for _, from in ipairs({ h, with }) do
    for field, value in pairs(from) do
      new[field] = value
    end
  end
  return render(new)
end

-- FRESH is the head of a job to which nothing has happened. It stands in no record, so
-- it has no text.
local FRESH = {
  state = WAITING, token = '', version = '', cancel = '', tries = '  ', next = '', ended = '', expires = '', logs = '',
  nonce = '', reason = '', mark = '',
}

-- head_of reads the head of a progress: all but the state as text, tries is
-- attempts, snoozes and lapses. It gives false for what is no progress. Heads may
-- be those of several jobs, so none is changed.
local heads = {}
local function head_of(progress)
  local written = string.match(progress, '^[^\n]*')
  local h = heads[written]
  if h == nil then
    local state, token, version, cancel, tries, next, ended, expires, logs, nonce, reason, mark = string.match(written, PROGRESS)
    h = mark and {
      state = tonumber(state), token = token, version = version, cancel = cancel, tries = tries, next = next, ended = ended,
      expires = expires, logs = logs, nonce = nonce, reason = reason, mark = mark, text = written,
    } or false
    heads[written] = h
  end
  return h
end

-- uid_of is the uid in a progress whose head is h.
local function uid_of(h, progress)
  return string.sub(progress, #h.text + 2, #h.text + 17)
end

-- parse gives head and uid of a job, of which a part may be missing, and its timeout
-- if it has one of its own. It gives nil for what is no record.
local function parse(registration, progress)
  if not registration then
    return nil
  end
  local uid, created, expires, timeout = string.match(registration, SHORT), nil, '', ''
  if not uid then
    created, expires, timeout, uid = string.match(registration, LONG)
  end
  if not uid then
    return nil
  elseif progress then
    local h = head_of(progress)
    if not h or uid_of(h, progress) ~= uid then
      return nil
    end
    return h, uid, tonumber(timeout)
  elseif expires ~= '' then
    return changed(FRESH, { expires = text(created + expires) }), uid, tonumber(timeout)
  end
  return FRESH, uid, tonumber(timeout)
end

-- place takes a bucket's score apart: the state, and the time that it stands for.
local function place(score)
  local ms = math.floor(score)
  local state = (score - ms) * 4
  if ms < 0 then
    ms = ms + BASE
  end
  return state, ms
end

-- stamp puts a time and two bits together as a score. It is text, which many
-- entries share: Redis would write each number anew.
local stamps = {}
local function stamp(ms, bits)
  local of_bits = stamps[bits]
  if not of_bits then
    of_bits = {}
    stamps[bits] = of_bits
  end
  local written = of_bits[ms]
  if not written then
    written = bits == 0 and string.format('%d', ms) or string.format('%.2f', ms + bits / 4)
    of_bits[ms] = written
  end
  return written
end

-- score is that of an entry in a bucket.
local function score(state, ms)
  if state >= READY then
    ms = ms - BASE
  end
  return stamp(ms, state)
end

-- A lane is topic|letter|endpoint; the letter is that of its priority (job.Lane).
-- Of the lanes of a topic those that go first sort first. Lanes with another than
-- the default priority stand in ranks.
local function has_priority(lane)
  return string.find(lane, '|M|', 1, true) == nil
end

-- plain_of is the lane of the same topic and endpoint with the default priority.
local function plain_of(lane)
  return (string.gsub(lane, '|%a|', '|M|', 1))
end

local function topic_of(lane)
  return string.match(lane, '^[^|]*')
end

-- endpoint_of is the endpoint of a lane.
local endpoints = {}
local function endpoint_of(lane)
  local endpoint = endpoints[lane]
  if not endpoint then
    endpoint = string.match(lane, '[^|]*$')
    endpoints[lane] = endpoint
  end
  return endpoint
end

-- Counts of jobs by topic and state, and of those that are out by endpoint, are
-- gathered by lane and written once for a batch.
local counted = {}
local function count(lane, state, n)
  local states = counted[lane]
  if not states then
    states = {}
    counted[lane] = states
  end
  states[state] = (states[state] or 0) + n
end

-- add_counts adds to fields of a hash, with three commands at most to many. It gives
-- the fields that are new, and those that are gone. In busy stand, of the fields that
-- waits names, those that are MANY at least, with a score that is wrong by a factor of two
-- at most, so that it is seldom written; both may be nil.
local function add_counts(key, gathered, waits, busy)
  local fields, count, sums, new, gone = {}, 0, {}, {}, {}
  for field, n in pairs(gathered) do
    if n ~= 0 then
      count = count + 1
      fields[count] = field
    end
  end
  if count == 0 then
    return new, gone
  end
  local few = count <= 2
  local found = few or redis.call('HMGET', key, unpack(fields))
  for i, field in ipairs(fields) do
    local n = gathered[field]
    local sum = few and redis.call('HINCRBY', key, field, n) or n + (found[i] or 0)
    local before = sum - n
    if sum <= 0 then
      gone[#gone + 1] = field
    else
      if before <= 0 then
        new[#new + 1] = field
      end
      if not few then
        sums[#sums + 1] = field
        sums[#sums + 1] = text(sum)
      end
    end
    if waits and waits[field] and (sum >= MANY or before >= MANY) then
      local _, was = math.frexp(before)
      local _, is = math.frexp(sum)
      if sum < MANY then
        redis.call('ZREM', busy, field)
      elseif was ~= is then
        redis.call('ZADD', busy, sum, field)
      end
    end
  end
  if #sums > 0 then
    redis.call('HSET', key, unpack(sums))
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
  return new, gone
end

local function add(sums, field, n)
  sums[field] = (sums[field] or 0) + n
end

-- write_counts writes the gathered counts: topic|state, |state of all topics, and
-- =endpoint|state of unfinished jobs. out may be nil when nothing that was out
-- moved. In busy stand topics and states of jobs that wait. It gives the fields that are
-- new, and those that are gone.
local function write_counts(counts, out, busy)
  local sums, by_endpoint, waits = {}, out and {}, busy and {}
  for lane, states in pairs(counted) do
    local topic, endpoint = string.match(lane, '^([^|]*)|.-([^|]*)$')
    for state, n in pairs(states) do
      if n ~= 0 then
        local of_state = OF_STATE[state] or '|' .. state -- or a score that nobody should have written
        local field = topic .. of_state
        add(sums, field, n)
        add(sums, of_state, n)
        if state < FINAL then
          add(sums, '=' .. endpoint .. of_state, n)
          if state >= READY and out then
            add(by_endpoint, endpoint, n)
          elseif state < READY and busy then
            waits[field] = true
          end
        end
      end
    end
  end
  if out then
    add_counts(out, by_endpoint)
  end
  return add_counts(counts, sums, waits, busy)
end

-- Names stand in index, each with the score 0, behind a letter that says of what:
-- t<topic> of each topic that holds a job, d<topic> of each that may hold ended ones other
-- than dead letters, l<lane> and e<endpoint> <lane> of each lane.
-- drop_topics takes out topics that hold no job any more; gone is what
-- write_counts gave.
local function drop_topics(counts, index, gone)
  local topics, seen, fields, dropped = {}, {}, {}, {}
  for _, field in ipairs(gone) do
    local topic = string.match(field, '^([^|=]+)|')
    if topic and not seen[topic] then
      seen[topic] = true
      topics[#topics + 1] = topic
      for state = 0, LAST do
        fields[#fields + 1] = topic .. '|' .. state
      end
    end
  end
  local found = #fields > 0 and redis.call('HMGET', counts, unpack(fields)) or {}
  for n, topic in ipairs(topics) do
    local left = false
    for i = (n - 1) * (LAST + 1) + 1, n * (LAST + 1) do
      left = left or found[i]
    end
    if not left then
      dropped[#dropped + 1] = 't' .. topic
    end
  end
  if #dropped > 0 then
    redis.call('ZREM', index, unpack(dropped))
  end
end

-- An endpoint's gate is "<held till> <probed till>" while it is held or probed,
-- and "<start>" of the ramp after that.
-- held_till gives until when a lane's endpoint is held, or nil.
local function held_till(held, lane, now)
  local till = string.match(redis.call('HGET', held, endpoint_of(lane)) or '', '^(%d+) ')
  till = tonumber(till)
  return till and till > now and till or nil
end

-- Lanes that need a look earlier than they did are gathered, and written once.
local earlier = {}
local function look_at(lane, ms)
  if not earlier[lane] or ms < earlier[lane] then
    earlier[lane] = ms
  end
end

-- Lanes that wait for a place, because as many jobs of their topic are out as may
-- be, stand in places. One that waits for a place of its own stands there as
-- '=' .. lane.

-- call_lane has one lane of a topic looked at that waits for a place, any of them.
local function call_lane(places, topic, now)
  local first, last = '[' .. topic .. '|', '(' .. topic .. '}'
  local waiting = redis.call('ZLEXCOUNT', places, first, last)
  if waiting == 0 then
    return
  end
  local lane = redis.call('ZRANGE', places, first, last, 'BYLEX', 'LIMIT', micros % waiting, 1)[1]
  redis.call('ZREM', places, lane)
  look_at(lane, now)
end

-- call_lanes has lanes looked at for places that came free, by what was counted.
local function call_lanes(places, now)
  for lane, states in pairs(counted) do
    local free = -((states[READY] or 0) + (states[RUNNING] or 0))
    if free > 0 and redis.call('ZREM', places, '=' .. lane) == 1 then
      look_at(lane, now)
    end
    for _ = 1, free do
      call_lane(places, topic_of(lane), now)
    end
  end
end

-- index_lanes puts lanes (each behind its score) into the index, with their topics.
local function index_lanes(index, looks)
  local names = {}
  for i = 2, #looks, 2 do
    local lane, n = looks[i], #names
    names[n + 1], names[n + 2] = 0, 'l' .. lane
    names[n + 3], names[n + 4] = 0, 'e' .. endpoint_of(lane) .. ' ' .. lane
    names[n + 5], names[n + 6] = 0, 't' .. topic_of(lane)
  end
  redis.call('ZADD', index, unpack(names))
end

-- write_lanes lowers the gathered lanes; held and places may be nil, and ranks and
-- index if none of them is new. It tells the carriers (channel may be nil) when one
-- of them is now the earliest of all.
local function write_lanes(lanes, held, places, channel, now, ranks, index)
  local holds = false
  if places then
    holds = redis.call('EXISTS', held, places) > 0
    if holds and redis.call('EXISTS', places) == 1 then
      call_lanes(places, now)
    end
  elseif held then
    holds = redis.call('EXISTS', held) == 1
  end
  local head = redis.call('ZRANGE', lanes, 0, 0, 'WITHSCORES')[2]
  head = head and tonumber(head)
  local woken, looks = false, {}
  for lane, ms in pairs(earlier) do
    local till = holds and held_till(held, lane, now)
    if till and till > ms then
      ms = till
    end
    looks[#looks + 1] = text(ms)
    looks[#looks + 1] = lane
    if ranks and has_priority(lane) then
      redis.call('ZADD', ranks, 0, lane)
    end
    woken = woken or not head or ms < head
  end
  if #looks > 0 and redis.call('ZADD', lanes, 'LT', unpack(looks)) > 0 and index then
    index_lanes(index, looks)
  end
  if channel and woken then
    redis.call('PUBLISH', channel, '')
  end
end

-- next_look is when a bucket next needs a look; nil when it is empty.
local function next_look(bucket)
  local first = redis.call('ZRANGE', bucket, 0, 0, 'WITHSCORES')[2]
  if not first then
    return nil
  end
  local state, ms = place(tonumber(first))
  if state < READY then
    return ms
  end
  local waiting = redis.call('ZRANGE', bucket, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  if waiting then
    ms = math.min(ms, math.floor(tonumber(waiting)))
  end
  return ms
end

-- forget_lanes forgets lanes without jobs.
local function forget_lanes(lanes, ranks, index, gone)
  local names, ranked = {}, {}
  for _, lane in ipairs(gone) do
    names[#names + 1] = 'l' .. lane
    names[#names + 1] = 'e' .. endpoint_of(lane) .. ' ' .. lane
    if has_priority(lane) then
      ranked[#ranked + 1] = lane
    end
    earlier[lane] = nil
  end
  if #gone > 0 then
    redis.call('ZREM', lanes, unpack(gone))
    redis.call('ZREM', index, unpack(names))
  end
  if #ranked > 0 then
    redis.call('ZREM', ranks, unpack(ranked))
  end
end
