-- Replaces the limits of a topic.
-- KEYS topics tokens
-- ARGV topic limits (as lua/limits.lua has them; '' for none) forget (1: the rate is another)
if ARGV[3] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return 1
