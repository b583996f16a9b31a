-- Stores keys that were counted of a job that moves to the shard. They expire unless it does.
-- KEYS counted (see count.lua)
-- ARGV life in ms, then for each key its field
local new = redis.call('EXISTS', KEYS[1]) == 0
local fields = {}
for a = 2, #ARGV do
  fields[#fields + 1] = ARGV[a]
  fields[#fields + 1] = ''
end
redis.call('HINCRBY', KEYS[1], 'n', redis.call('HSET', KEYS[1], unpack(fields)))
if new then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 1
