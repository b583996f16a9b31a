-- Forgets finished jobs whose retention has passed.
-- KEYS counts ended, then for each job: page biz
-- ARGV retention topic, then for each job: id biz? (1: it is in that index)
-- Returns how many were forgotten.
local now = now_ms()
local purged = 0
local topic, a = ARGV[2], 3
for k = 3, #KEYS, 2 do
  local id = ARGV[a]
  local s = redis.call('ZSCORE', KEYS[2], id)
  if s then
    local state, ms = place(tonumber(s))
    if ms + ARGV[1] <= now then
      redis.call('ZREM', KEYS[2], id)
      local name = topic .. '/' .. id
      redis.call('HDEL', KEYS[k], name, progress_field(name))
      if ARGV[a + 1] == '1' then
        redis.call('ZREM', KEYS[k + 1], name)
      end
      count(topic .. '|', state + FINAL, -1)
      purged = purged + 1
    end
  end
  a = a + 2
end
write_counts(KEYS[1])
return purged
