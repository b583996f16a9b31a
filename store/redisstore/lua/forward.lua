-- Compares and sets what stands in the place of registrations: signs to other shards.
-- KEYS page of each
-- ARGV for each: topic/id, what stands there ('': nothing), what shall ('': nothing)
-- Returns for each 1 when it is done, 0 when something else stands there.
local reply = {}
for n, page in ipairs(KEYS) do
  local name, was, new = ARGV[3 * n - 2], ARGV[3 * n - 1], ARGV[3 * n]
  local parts = redis.call('HMGET', page, name, progress_field(name))
  local stands = parts[1] or ''
  if parts[2] or stands ~= was and stands ~= new then
    reply[n] = 0
  else
    if new == '' then
      redis.call('HDEL', page, name)
    elseif stands ~= new then
      redis.call('HSET', page, name, new)
    end
    reply[n] = 1
  end
end
return reply
