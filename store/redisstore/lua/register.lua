-- Registers jobs whose keys are free. Redis refuses it when its memory is full.
-- KEYS own, then of each lane: bucket
-- ARGV channel, then for each job: body (uid and spec), due (a delay, or a time below zero),
--      its TTL, timeout and order key ("<TTL> <timeout>" or "<TTL> <timeout> <order key>",
--      empty without any; the TTL may be a time below zero), names (numbers of its indexes,
--      0 for none)
-- Returns now, then for each job '' if it was registered, 'full' or 'draining' if its topic
--   takes no more, 'left' if it is for another call, or the registration and progress of
--   the job that has the key.
local now = now_ms()
local reply = { now }
local jobs = batch(1, 1, 7, true)

-- check fails the call for a key of another type before anything is written: a record
-- without its entry would be lost.
local checked = {}
local function check(zset)
  if not checked[zset] then
    redis.call('ZCARD', zset)
    checked[zset] = true
  end
end

check_types()

local order = nil -- the functions of lib/turns.lua
local created = text(now) .. ' '
for n, j in ipairs(jobs) do
  local registration, progress, a = stored[j.name], stored[j.field], j.args
  local existing, left = registration or progress, progress == nil
  local refused = not existing and not left and refusal(j.lane.topic)
  if left then
    reply[n + 1] = 'left'
  elseif existing then
    reply[n + 1] = { registration, progress }
  elseif refused then
    reply[n + 1] = refused
  else
    local due, terms = tonumber(ARGV[a + 2]), ARGV[a + 3]
    if due < 0 then
      due = math.max(0, -due - now)
    end
    local head, wake = created .. text(due), due
    if terms ~= '' then
      local expires, rest = string.match(terms, '^-(%d+)(.*)')
      if expires then
        terms = text(math.max(0, expires - now)) .. rest
      end
      head = head .. ' ' .. terms
      local ttl = string.match(terms, '^%d+')
      wake = ttl and math.min(due, tonumber(ttl)) or due
    end
    check(j.lane.bucket)
    write_part(j, j.name, head .. '\n' .. ARGV[a + 1])
    if j.lane.ordered then
      order = order or open_turns()
      local key = j.lane.prefix .. string.match(terms, '[^ ]*$')
      local turn = order.text(now + due, now, string.sub(ARGV[a + 1], 1, UID))
      wake = order.enter(key, turn .. j.lane.name .. '|' .. j.id) and wake or wake + PARK
    end
    write('ZADD', j.lane.bucket, score(WAITING, now + wake), j.id)
    index_job(j, ARGV[a + 4], check)
    count(j.lane.counts, WAITING, 1)
    look_at(j.lane.name, now + wake)
    reply[n + 1] = ''
  end
end
if order then
  order.write(now)
end
write_all()
write_counts()
write_lanes(ARGV[1], now)
return reply
