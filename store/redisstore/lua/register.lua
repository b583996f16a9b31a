-- Takes jobs in whose keys are free. Refused when Redis is full: no allow-oom.
-- KEYS lanes counts held, then for each job: job bucket biz
-- ARGV channel, then for each job: id lane topic uid spec delay at ttl timeout member
--      (delay -1: due at at; member '': no biz_key)
-- Returns now, then for each job '' when it was taken in, or the record that has the key.
local lanes, counts, held = KEYS[1], KEYS[2], KEYS[3]
local now = now_ms()
local reply = { now }
local k, a = 4, 2
while KEYS[k] do
  local existing = redis.call('GET', KEYS[k])
  if existing then
    reply[#reply + 1] = existing
  else
    local id, lane, topic, spec = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 4]
    local due, ttl = tonumber(ARGV[a + 5]), tonumber(ARGV[a + 7])
    if due < 0 then
      due = math.max(0, ARGV[a + 6] - now)
    end
    local wake, expires = due, -1
    if ttl > 0 then
      wake, expires = math.min(due, ttl), ttl
    end
    local h = { state = WAITING, cancel = 0, attempts = 0, snoozes = 0, lapses = 0, token = 0, version = 1,
      created = now, due = due, next = due, expires = expires, ended = -1, timeout = ARGV[a + 8], spec = #spec,
      logs = 0, nonce = '-', reason = '-', mark = '-' }
    redis.call('SET', KEYS[k], render(h, ARGV[a + 3] .. spec))
    redis.call('ZADD', KEYS[k + 1], score(WAITING, now + wake), id)
    if ARGV[a + 9] ~= '' then
      redis.call('ZADD', KEYS[k + 2], 0, ARGV[a + 9])
    end
    count(topic, lane, WAITING, 1)
    look_at(lane, now + wake)
    reply[#reply + 1] = ''
  end
  k, a = k + 3, a + 10
end
write_counts(counts)
write_lanes(lanes, held, ARGV[1], now)
return reply
