-- Registers jobs whose keys are free. Redis refuses it when its memory is full.
-- KEYS own, then of each lane: bucket
-- ARGV channel, then for each job: body (uid and spec), due (a delay, or a time below zero),
--      its TTL and timeout ("<TTL> <timeout>", empty without either), biz (number of its
--      index, 0 for none)
-- Returns now, then for each job '' if it was registered, 'full' or 'draining' if its topic
--   takes no more, 'left' if it is for another call, or the registration and progress of
--   the job that has the key.
local now = now_ms()
local reply = { now }
local jobs, others = batch(1, 1, 7, true)
local special = redis.call('EXISTS', held, topics) > 0
local limits = special and limits_of_jobs(topics, jobs) or {}
local rooms = {}

-- refusal is why a topic takes no job, or nil.
local function refusal(topic)
  local of = limits[topic]
  if not of then
    return nil
  elseif of.draining then
    return 'draining'
  end
  rooms[topic] = rooms[topic] or room_in(of, counts, topic)
  if rooms[topic] then
    if rooms[topic] <= 0 then
      return 'full'
    end
    rooms[topic] = rooms[topic] - 1
  end
end

-- check fails the call for a key of another type before anything is written: a record
-- without its entry would be lost.
local checked = {}
local function check(zset)
  if not checked[zset] then
    redis.call('ZCARD', zset)
    checked[zset] = true
  end
end

local created = text(now) .. ' '
for n, j in ipairs(jobs) do
  local registration, progress, a = registrations[j.field], progresses[j.field], j.args
  local existing, left = registration or progress, progress == nil
  local refused = not existing and not left and refusal(j.lane.topic)
  if left then
    reply[n + 1] = 'left'
  elseif existing then
    reply[n + 1] = { registration, progress }
  elseif refused then
    reply[n + 1] = refused
  else
    local due, terms, biz = tonumber(ARGV[a + 2]), ARGV[a + 3], others[ARGV[a + 4]]
    if due < 0 then
      due = math.max(0, -due - now)
    end
    local head, wake = created .. text(due), due
    if terms ~= '' then
      head = head .. ' ' .. terms
      local ttl = string.match(terms, '^%d+')
      wake = ttl and math.min(due, tonumber(ttl)) or due
    end
    check(j.lane.bucket)
    write_registration(j, head .. '\n' .. ARGV[a + 1])
    write('ZADD', j.lane.bucket, score(WAITING, now + wake), j.id)
    if biz then
      check(biz)
      write('ZADD', biz, '0', j.name)
    end
    count(j.lane.name, WAITING, 1)
    look_at(j.lane.name, now + wake)
    reply[n + 1] = ''
  end
end
write_all()
write_counts(counts, nil, busy)
write_lanes(lanes, special and held or nil, nil, ARGV[1], now, ranks, index)
return reply
