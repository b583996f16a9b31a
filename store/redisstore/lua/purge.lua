-- Forgets finished jobs whose retention has passed.
-- KEYS counts ended, then for each job: job biz
-- ARGV retention topic, then for each job: id member
-- Returns how many were forgotten.
local now = now_ms()
local purged = 0
local a = 3
for k = 3, #KEYS, 2 do
  local s = redis.call('ZSCORE', KEYS[2], ARGV[a])
  if s then
    local state, ms = place(tonumber(s))
    if ms + ARGV[1] <= now then
      redis.call('ZREM', KEYS[2], ARGV[a])
      redis.call('DEL', KEYS[k])
      if ARGV[a + 1] ~= '' then
        redis.call('ZREM', KEYS[k + 1], ARGV[a + 1])
      end
      count(ARGV[2], '', state + FINAL, -1)
      purged = purged + 1
    end
  end
  a = a + 2
end
write_counts(KEYS[1])
return purged
