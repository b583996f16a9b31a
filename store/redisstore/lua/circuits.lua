-- Forgets the gates of endpoints that are neither held nor probed any more and
-- have ramped up. Carrying does so too, but only where there are jobs.
-- KEYS held
-- ARGV ramp time, how many gates to look at, by chance
-- Returns how many were forgotten.
local now = now_ms()
local gates = redis.call('HRANDFIELD', KEYS[1], ARGV[2], 'WITHVALUES')
local forgotten = 0
for i = 1, #gates, 2 do
  local ends = string.match(gates[i + 1], ' (%d+)$') or gates[i + 1] + ARGV[1]
  if tonumber(ends) <= now then
    redis.call('HDEL', KEYS[1], gates[i])
    forgotten = forgotten + 1
  end
end
return forgotten
