-- Forgets ended jobs whose retention has passed.
-- KEYS own, then each topic's list of ended jobs, then for each job: page biz
-- ARGV retention, the number of topics, their names, then for each job: topic (its number,
--      from 1) id biz? (1: it is in that index)
-- Returns how many were forgotten.
local retention, topics = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = now_ms()
local purged, a = 0, 3 + topics
for k = OWN_KEYS + topics + 1, #KEYS, 2 do
  local n, id = tonumber(ARGV[a]), ARGV[a + 1]
  local topic, ended = ARGV[2 + n], KEYS[OWN_KEYS + n]
  local s = redis.call('ZSCORE', ended, id)
  if s then
    local state, ms = place(tonumber(s))
    if ms + retention <= now then
      redis.call('ZREM', ended, id)
      local name = topic .. '/' .. id
      redis.call('HDEL', KEYS[k], name, progress_field(name))
      if ARGV[a + 2] == '1' then
        redis.call('ZREM', KEYS[k + 1], name)
      end
      count(topic .. '|', state + FINAL, -1)
      purged = purged + 1
    end
  end
  a = a + 3
end
-- Topics stand in endings with the time of the first job that is left.
for n = 1, topics do
  local first = redis.call('ZRANGE', KEYS[OWN_KEYS + n], 0, 0, 'WITHSCORES')[2]
  if first then
    redis.call('ZADD', endings, math.floor(tonumber(first)), ARGV[2 + n])
  else
    redis.call('ZREM', endings, ARGV[2 + n])
    redis.call('ZREM', index, 'd' .. ARGV[2 + n])
  end
end
local _, gone = write_counts(counts)
drop_topics(counts, index, gone)
return purged
