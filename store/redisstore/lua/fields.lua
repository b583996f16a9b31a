-- Changes fields of hashes that nobody has changed since they were read.
-- KEYS own, then the hash of each field
-- ARGV outdates (1: it makes plans of carrying old), then for each field: its name, what it
--      was ('': there was none; with a line feed at the end: how it began), its new value
--      ('': none)
-- Returns for each 1 when it is done, 2 when the field has that value already, 0 when it has
--   another one.
local function change(hash, field, was, new)
  local is = redis.call('HGET', hash, field) or ''
  if is == new then
    return 2
  elseif is ~= was and not (string.sub(was, -1) == '\n' and string.sub(is, 1, #was) == was) then
    return 0
  elseif new == '' then
    redis.call('HDEL', hash, field)
  else
    redis.call('HSET', hash, field, new)
  end
  return 1
end

local reply = {}
for n = 1, #KEYS - OWN_KEYS do
  reply[n] = change(KEYS[OWN_KEYS + n], ARGV[3 * n - 1], ARGV[3 * n], ARGV[3 * n + 1])
end
if ARGV[1] == '1' then
  redis.call('INCR', plan)
end
return reply
