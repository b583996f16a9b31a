-- Reads records together with the time.
-- KEYS page of each
-- ARGV topic/id of each; none to read the time only
-- Returns now, then registration and progress of each, false for none.
local reply = { now_ms() }
for i = 1, #ARGV do
  local found = redis.call('HMGET', KEYS[i], ARGV[i], progress_field(ARGV[i]))
  reply[2 * i], reply[2 * i + 1] = found[1], found[2]
end
return reply
