-- Holds an endpoint.
-- KEYS held
-- ARGV endpoint duration probe (how long it is probed afterwards)
local till = now_ms() + ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f', till, till + ARGV[3]))
return 1
