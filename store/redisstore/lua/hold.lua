-- Holds an endpoint, or with a duration of 0 ends its hold, if there is one.
-- KEYS held
-- ARGV endpoint duration probe (how long it is probed afterwards)
local now, duration = now_ms(), tonumber(ARGV[2])
local till = now + duration
local probed = till + ARGV[3]
if duration == 0 then
  if not held_till(KEYS[1], '|' .. ARGV[1], now) then
    return 0
  end
  till = 0 -- whatever anybody takes the time to be, it is over
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f', till, probed))
return 1
