-- Reads records together with the time, the first ones only when they are large.
-- KEYS page of each
-- ARGV topic/id of each; none to read the time only
-- Returns now, then registration and progress of each, false for none, until ROOM bytes are read.
local reply, room = { now_ms() }, ROOM
for i = 1, #ARGV do
  local found = redis.call('HMGET', KEYS[i], ARGV[i], progress_field(ARGV[i]))
  reply[2 * i], reply[2 * i + 1] = found[1], found[2]
  room = room - #(found[1] or '') - #(found[2] or '')
  if room <= 0 then
    break
  end
end
return reply
