-- Takes jobs in whose keys are free. Refused when Redis is full: no allow-oom.
-- KEYS lanes counts held, then of each lane: bucket
-- ARGV channel, then for each job: body (uid and spec) delay at ttl timeout biz
--      (delay -1: due at at; biz: number of its index, 0 for none)
-- Returns now, then for each job '' when it was taken in, or the record that has the key.
local lanes, counts, held = KEYS[1], KEYS[2], KEYS[3]
local now = now_ms()
local reply = { now }
local jobs, others = batch(3, 1, 1, 9)
for n, j in ipairs(jobs) do
  local existing, a = records[j.name], j.args
  if existing then
    reply[n + 1] = existing
  else
    local due, ttl, timeout, biz = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 4]), ARGV[a + 5], others[ARGV[a + 6]]
    if due < 0 then
      due = math.max(0, ARGV[a + 3] - now)
    end
    local head, wake = now .. ' ' .. due, due
    if ttl > 0 or timeout ~= '0' then
      head = head .. ' ' .. (ttl > 0 and ttl or '') .. ' ' .. (timeout ~= '0' and timeout or '') .. string.rep(' ', 14)
    end
    if ttl > 0 then
      wake = math.min(due, ttl)
    end
    write_record(j, head .. '\n' .. ARGV[a + 1])
    write('ZADD', j.lane.bucket, score(WAITING, now + wake), j.id)
    if biz then
      write('ZADD', biz, '0', j.name)
    end
    count(j.lane.name, WAITING, 1)
    look_at(j.lane.name, now + wake)
    reply[n + 1] = ''
  end
end
write_all()
write_counts(counts)
write_lanes(lanes, held, ARGV[1], now)
return reply
