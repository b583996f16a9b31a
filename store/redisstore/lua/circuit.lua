-- Changes the circuit of an endpoint, or forgets circuits.
-- KEYS own
-- ARGV change, and then
--      open: endpoint, how long it is open, how long it is half-open after that
--      half-open: endpoint, how long; only an open circuit becomes half-open
--      close: endpoint; the ramp of an open or half-open circuit begins
--      forget: endpoints and their circuits in turn; those that are still the same
-- Returns how many circuits it changed.
local change, endpoint = ARGV[1], ARGV[2]
local now, changed = now_ms(), nil
local stored = redis.call('HGET', circuits, endpoint) or ''
if change == 'open' then
  changed = text(now + ARGV[3]) .. ' ' .. text(now + ARGV[3] + ARGV[4])
elseif change == 'half-open' and tonumber(string.match(stored, '^(%d+) ') or 0) > now then
  changed = '0 ' .. text(now + ARGV[3]) -- no clock takes it for open
elseif change == 'close' and string.find(stored, ' ') then
  changed = text(now)
end
if changed then
  redis.call('HSET', circuits, endpoint, changed)
  return 1
end
local forgotten = 0
for i = 2, change == 'forget' and #ARGV or 0, 2 do
  if redis.call('HGET', circuits, ARGV[i]) == ARGV[i + 1] then
    forgotten = forgotten + redis.call('HDEL', circuits, ARGV[i])
  end
end
return forgotten
