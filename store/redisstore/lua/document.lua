-- Writes or deletes documents of a kind, each if its version is the expected one.
-- KEYS hash of the kind
-- ARGV for each document: name expected (0: none may be there) data delete (1)
-- Returns for each the new version (of a deleted one: 0), -1 on another version, -2 when
--   there is none to delete.
local function change(name, expected, data, delete)
  local stored = redis.call('HGET', KEYS[1], name)
  local version = 0
  if stored then
    version = tonumber(string.match(stored, '^(%d+)\n'))
    -- Sent again after a lost reply: what stands there is what was to be written.
    if not delete and stored == (expected + 1) .. '\n' .. data then
      return expected + 1
    end
  end
  if delete and not stored then
    return -2
  elseif version ~= expected then
    return -1
  elseif delete then
    redis.call('HDEL', KEYS[1], name)
    return 0
  end
  redis.call('HSET', KEYS[1], name, (version + 1) .. '\n' .. data)
  return version + 1
end

local reply = {}
for a = 1, #ARGV, 4 do
  reply[#reply + 1] = change(ARGV[a], tonumber(ARGV[a + 1]), ARGV[a + 2], ARGV[a + 3] == '1')
end
return reply
