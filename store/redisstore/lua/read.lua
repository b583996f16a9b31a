-- Reads records together with the time.
-- KEYS page of each
-- ARGV most (bytes of records to read), heads (1: only what precedes the first line feed),
--      then topic/id of each; none to read the time only
-- Returns now, then registration and progress of each, false for none. It ends early when
--   the records take most bytes, but not before the first.
local reply, room, heads_only = { now_ms() }, tonumber(ARGV[1]), ARGV[2] == '1'
for i = 1, #ARGV - 2 do
  local name = ARGV[i + 2]
  for n, part in ipairs(redis.call('HMGET', KEYS[i], name, progress_field(name))) do
    room = room - #(part or '')
    reply[2 * i + n - 1] = heads_only and part and string.match(part, '^[^\n]*') or part
  end
  if room <= 0 then
    break
  end
end
return reply
