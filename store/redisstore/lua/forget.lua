-- Forgets a job whose record cannot be read, if that is still what stands there.
-- KEYS lanes counts out page deads ended ranks index busy, then buckets of its topic, then groups of dead letters
-- ARGV id topic registration progress ('' for none), number of buckets, then the names of their lanes and of the groups
-- Returns 1 when nothing is left of it, 0 when something else stands there.
local lanes, counts, out, page, deads, ended, ranks = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local index, busy = KEYS[8], KEYS[9]
local id, topic, buckets = ARGV[1], ARGV[2], tonumber(ARGV[5])
local name = topic .. '/' .. id
local old = redis.call('HMGET', page, name, progress_field(name))
if not old[1] and not old[2] then
  return 1
elseif (old[1] or '') ~= ARGV[3] or (old[2] or '') ~= ARGV[4] then
  return 0
end

-- leave takes the entry out of a ZSET, and gives its state there, or nil.
local function leave(key)
  local s = redis.call('ZSCORE', key, id)
  if s then
    redis.call('ZREM', key, id)
    return (place(tonumber(s)))
  end
end

local state = leave(ended)
if state then
  count(topic .. '|', state + FINAL, -1)
end
for k = 10, #KEYS do
  local group = ARGV[k - 4]
  state = leave(KEYS[k])
  if state and k < 10 + buckets then
    count(group, state, -1)
    if redis.call('EXISTS', KEYS[k]) == 0 then
      forget_lanes(lanes, ranks, index, { group })
    end
  elseif state then
    count(topic .. '|', DEAD, -1)
    if redis.call('EXISTS', KEYS[k]) == 0 then
      redis.call('ZREM', deads, group)
    end
  end
end
redis.call('HDEL', page, name, progress_field(name))
local _, gone = write_counts(counts, out, busy)
drop_topics(counts, index, gone)
return 1
