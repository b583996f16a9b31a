-- Replaces the limits of a topic.
-- KEYS own
-- ARGV topic limits (as in lib/limits.lua; '' for none) forget (1: the rate is another)
local topic, limits, forget = unpack(ARGV)
if forget == '1' then
  redis.call('HDEL', tokens, topic)
end
if limits == '' then
  redis.call('HDEL', topics, topic)
else
  redis.call('HSET', topics, topic, limits)
end
return 1
