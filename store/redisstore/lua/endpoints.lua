-- Finds endpoints that have lanes: the index holds e<endpoint> <lane> for each.
-- KEYS index
-- ARGV where to begin, the end of that section, n
-- Returns the first n of them.
local found, from = {}, '[' .. ARGV[1]
for _ = 1, tonumber(ARGV[3]) do
  local entry = redis.call('ZRANGE', KEYS[1], from, '(' .. ARGV[2], 'BYLEX', 'LIMIT', 0, 1)[1]
  if not entry then
    break
  end
  local endpoint = string.match(entry, '^e([^ ]*) ')
  found[#found + 1] = endpoint
  from = '[e' .. endpoint .. '!' -- the sign behind the blank
end
return found
