-- Ends an endpoint's hold: from now on it ramps up.
-- KEYS held
-- ARGV endpoint
-- Returns 1 if it was held or probed, 0 if not: perhaps any more.
local gate = redis.call('HGET', KEYS[1], ARGV[1])
if not gate or not string.find(gate, ' ') then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now_ms()))
return 1
