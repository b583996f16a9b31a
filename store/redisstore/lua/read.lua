-- Reads records together with the time.
-- KEYS page of each
-- ARGV topic/id of each; none to read the time only
-- Returns now, then each record or false.
local reply = { now_ms() }
for i = 1, #ARGV do
  reply[i + 1] = redis.call('HGET', KEYS[i], ARGV[i])
end
return reply
