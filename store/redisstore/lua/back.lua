-- After the server's clock went back: holds and ramps that a clock ahead began are
-- over and begin now, what it carried or claimed ends within the usual time, and
-- lanes that it put off are looked at when they need it.
-- KEYS lanes held, then the lanes' buckets
-- ARGV channel probe (how long an endpoint is probed after its hold) longest
--      (how long a lease or a visibility deadline lasts at most; 0: any time), limit,
--      then the lanes
-- Returns 1 if that many entries were moved: there may be more.
local lanes, held = KEYS[1], KEYS[2]
local probe, longest, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = now_ms()

local gates = redis.call('HGETALL', held)
for i = 1, #gates, 2 do
  local till = string.match(gates[i + 1], '^(%d+) %d+$')
  if till and tonumber(till) > now then
    redis.call('HSET', held, gates[i], '0 ' .. text(now + probe))
  elseif not till and tonumber(gates[i + 1]) > now then
    redis.call('HSET', held, gates[i], text(now))
  end
end

local left = limit
for n = 3, #KEYS do
  local bucket, lane = KEYS[n], ARGV[n + 2]
  if longest > 0 and left > 0 then
    local far = redis.call('ZRANGE', bucket, '(' .. text(now + longest + 1 - BASE), '(0', 'BYSCORE', 'LIMIT', 0, left, 'WITHSCORES')
    local nearer = {}
    for i = 1, #far, 2 do
      nearer[i], nearer[i + 1] = score(place(tonumber(far[i + 1])), now + longest), far[i]
    end
    if #nearer > 0 then
      redis.call('ZADD', bucket, unpack(nearer))
      left = left - #nearer / 2
    end
  end
  local look = next_look(bucket)
  if look then
    redis.call('ZADD', lanes, 'XX', 'LT', text(math.max(now, look)), lane)
  end
end
redis.call('PUBLISH', ARGV[1], '')
return left > 0 and 0 or 1
