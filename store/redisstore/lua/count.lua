-- Adds to the count of a job, and makes the job due when its count reaches the target.
-- The hash counted of the job has the fields k<key> of each key that was counted, n with their
-- number, and #<slot> with the last call and answer of each slot: a slot makes one call at a
-- time, so a call that is sent again gets the same answer. A new slot takes the place of those that made
-- their last call long ago: their processes ended.
-- KEYS own, then the job's bucket, page and counted
-- ARGV channel, lane, topic/id, id, uid, mark (of the job's last update), target, due (the time
--      from which the job has fired without its count; empty: never), slot, call,
--      most (count), keys (most of them), the sum of the adds without a key, then for each
--      other add: key number
-- Returns nothing if there is no such job with that uid and mark,
--   or "<call> <now> <state> <keys> <known>\n<head>": how the job was before. known has for each
--   add with a key 1 if the key was counted before, otherwise 0.
local channel, lane, name, id, uid, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local target, due, slot, call = tonumber(ARGV[7]), tonumber(ARGV[8]), '#' .. ARGV[9], ARGV[10]
local most, most_keys, sum = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local bucket, page, hash = KEYS[OWN_KEYS + 1], KEYS[OWN_KEYS + 2], KEYS[OWN_KEYS + 3]
local FIRST = 14 -- key
local MOST_SLOTS, SLOT_LIFE = 64, 600000 -- ms; no call is sent again for so long
local now = now_ms()

local field = progress_field(name)
local progress = redis.call('HGET', page, field)
local registration = progress and '' or redis.call('HGET', page, name)
local h, is
if progress then
  h = head_of(progress)
  is = h and uid_of(h, progress)
else
  h, is = parse(registration)
  h = h and render(h)
end
if not h or is ~= uid or h.mark ~= mark then
  return nil
end

local wanted = { 'n', slot }
for a = FIRST, #ARGV, 2 do
  wanted[#wanted + 1] = 'k' .. ARGV[a]
end
local found = redis.call('HMGET', hash, unpack(wanted))
local keys, last = tonumber(found[1] or 0), found[2]
if last and string.match(last, '^%d+') == call then
  return last
end

local placed = tonumber(redis.call('ZSCORE', bucket, id) or nil)
local state = h.state
if placed and state < FINAL and place(placed) == READY then
  state = READY
end
local total = number(h.count, 0)
local fired, tried = total % 2 == 1, tonumber(string.match(h.tries, '^%d+')) or 0
total = math.floor(total / 2)
local before = total
local had = fired or tried > 0 or due and due <= now
local closed = state >= FINAL or state == RUNNING and not had

local known, written, seen = {}, {}, {}
for a = FIRST, #ARGV, 2 do
  local at = #known + 1
  local key, counted_before = wanted[at + 2], found[at + 2]
  known[at] = counted_before and '1' or '0'
  if not closed and not counted_before and not seen[key] and keys + #written / 2 < most_keys then
    seen[key] = true
    sum = sum + tonumber(ARGV[a + 1])
    written[#written + 1], written[#written + 2] = key, ''
  end
end
local answer = table.concat({ call, text(now), text(state), text(keys), table.concat(known) }, ' ') .. '\n' .. h.text
if closed then
  return answer
end

total = math.min(total + sum, most)
local reached = fired or total >= target
if total == before and reached == fired then
  return answer
end
local next = h.next
if reached and not had and state == WAITING and placed then
  local _, ms = place(placed)
  local parked = ms >= PARK and PARK or 0 -- its turn has not come
  next = text(math.min(ms - parked, now))
  local wake = math.min(tonumber(next), number(h.expires, now)) + parked
  redis.call('ZADD', bucket, score(WAITING, wake), id)
  look_at(lane, wake)
end
local new = changed(h, {
  count = text(2 * total + (reached and 1 or 0)), version = text(number(h.version, 1) + 1), updated = text(now), next = next,
})
if not last and redis.call('HLEN', hash) > keys + MOST_SLOTS then
  for _, old in ipairs(redis.call('HKEYS', hash)) do
    local at = string.sub(old, 1, 1) == '#' and string.match(redis.call('HGET', hash, old), '^%d+ (%d+)')
    if at and tonumber(at) < now - SLOT_LIFE then
      redis.call('HDEL', hash, old)
    end
  end
end
redis.call('HSET', page, field, new.text .. '\n' .. (progress and string.sub(progress, #h.text + 2) or uid))
written[#written + 1], written[#written + 2] = 'n', text(keys + #written / 2)
written[#written + 1], written[#written + 2] = slot, answer
redis.call('HSET', hash, unpack(written))
redis.call('PERSIST', hash)
write_lanes(channel, now)
return answer
