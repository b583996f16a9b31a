-- Reads records together with the time.
-- KEYS job ...
-- Returns now, then each record or false.
local reply = { now_ms() }
for i = 1, #KEYS do
  reply[i + 1] = redis.call('GET', KEYS[i])
end
return reply
