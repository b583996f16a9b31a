-- Reads records together with the time.
-- KEYS page of each
-- ARGV most (bytes of records to read), what ('all', 'progress': no registration beside a progress),
--      then topic/id of each; none to read the time only
-- Returns now, then registration and progress of each, false for none. It ends early when
--   the records take most bytes, but not before the first.
local reply, room, what = { now_ms() }, tonumber(ARGV[1]), ARGV[2]
for i = 1, #ARGV - 2 do
  local name = ARGV[i + 2]
  local progress = what == 'progress' and redis.call('HGET', KEYS[i], progress_field(name))
  for n, part in ipairs(progress and { false, progress } or redis.call('HMGET', KEYS[i], name, progress_field(name))) do
    room = room - #(part or '')
    reply[2 * i + n - 1] = part
  end
  if room <= 0 then
    break
  end
end
return reply
