-- Forgets a job whose record cannot be read, if that is still what stands there.
-- KEYS lanes counts out page dead ended, then the buckets of its topic
-- ARGV id topic record, then the lanes of the buckets
-- Returns 1 when nothing is left of it, 0 when something else stands there.
local lanes, counts, out, page = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, topic = ARGV[1], ARGV[2]
local rec = redis.call('HGET', page, topic .. '/' .. id)
if not rec then
  return 1
elseif rec ~= ARGV[3] then
  return 0
end
for k = 5, #KEYS do
  local s = redis.call('ZSCORE', KEYS[k], id)
  if s then
    redis.call('ZREM', KEYS[k], id)
    local state = place(tonumber(s))
    if k < 7 then
      count(topic .. '|', state + FINAL, -1)
    else
      local lane = ARGV[k - 3]
      count(lane, state, -1)
      drop_lane(lanes, KEYS[k], lane)
    end
  end
end
redis.call('HDEL', page, topic .. '/' .. id)
write_counts(counts, out)
return 1
