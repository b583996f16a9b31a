-- Puts a text in the place of another, if that stands there.
-- KEYS layout
-- ARGV old ('': nothing) new
-- Returns what stands there then.
local stored = redis.call('GET', KEYS[1])
if (stored or '') == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return ARGV[2]
end
return stored or ''
