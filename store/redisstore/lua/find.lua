-- Looks for the record of a uid in a part of a page.
-- KEYS page
-- ARGV cursor (of HSCAN) uid most_records most_bytes
-- Returns the cursor behind that part, '0' at the end of the page, and the name of the
--   job (topic/id) that has the uid, '' when none of the part has it.
local cursor, mark, most, bytes_left = ARGV[1], '\n' .. ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local seen, bytes = 0, 0
local count = 4 -- until it is known how large the records are
repeat
  local found = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', count)
  cursor = found[1]
  local fields = found[2]
  for i = 2, #fields, 2 do
    -- The uid follows the head of either part of a record.
    if string.find(fields[i], mark, 1, true) then
      return { cursor, (string.gsub(fields[i - 1], '%+$', '')) }
    end
    bytes = bytes + #fields[i]
  end
  seen = seen + #fields / 2
  count = math.max(1, math.min(100, math.floor((bytes_left / 8) * seen / (bytes + 1))))
until cursor == '0' or seen >= most or bytes >= bytes_left
return { cursor, '' }
