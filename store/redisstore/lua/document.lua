-- Writes or deletes a document if its version is the expected one.
-- KEYS hash of the kind
-- ARGV name expected (0: none may be there) data delete (1)
-- Returns the new version (of a deleted one: 0), -1 on another version, -2 when there is none to delete.
local name, expected = ARGV[1], tonumber(ARGV[2])
local stored = redis.call('HGET', KEYS[1], name)
local version = 0
if stored then
  version = tonumber(string.match(stored, '^(%d+)\n'))
  -- Sent again after a lost reply: what stands there is what was to be written.
  if ARGV[4] ~= '1' and stored == (expected + 1) .. '\n' .. ARGV[3] then
    return expected + 1
  end
end
if ARGV[4] == '1' and not stored then
  return -2
end
if version ~= expected then
  return -1
end
if ARGV[4] == '1' then
  redis.call('HDEL', KEYS[1], name)
  return 0
end
redis.call('HSET', KEYS[1], name, (version + 1) .. '\n' .. ARGV[3])
return version + 1
