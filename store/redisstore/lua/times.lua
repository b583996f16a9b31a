-- Reads the heads of records, in which their times are.
-- KEYS page of each
-- ARGV most_bytes, then topic/id of each
-- Returns how many bytes the records take that were read, then the heads of registration
--   and progress of each, '' for none. It ends early, but not before the first, when the
--   records take most_bytes.
local most = tonumber(ARGV[1])
local bytes, reply = 0, {}
for i = 1, #KEYS do
  local name = ARGV[i + 1]
  local found = redis.call('HMGET', KEYS[i], name, progress_field(name))
  local registration, progress = found[1] or '', found[2] or ''
  reply[2 * i], reply[2 * i + 1] = string.match(registration, '^[^\n]*'), string.match(progress, '^[^\n]*')
  bytes = bytes + #registration + #progress
  if bytes >= most then
    break
  end
end
reply[1] = bytes
return reply
