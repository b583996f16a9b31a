-- Has lanes looked at now that were put off, those that are still there.
-- KEYS lanes
-- ARGV channel, then lanes
local now = now_ms()
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', 'LT', now, ARGV[i])
end
redis.call('PUBLISH', ARGV[1], '')
return 1
