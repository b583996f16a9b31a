-- Corrects the next looks of lanes that still exist. After the server's clock
-- went back, leases and visibility deadlines last the usual time at most.
-- KEYS own, then the lanes' buckets
-- ARGV channel longest (the longest lease or visibility deadline; 0: any) limit, then the lanes
-- Returns 1 if that many entries were moved: there may be more.
local longest, left = tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()

for n = OWN_KEYS + 1, #KEYS do
  local bucket, lane = KEYS[n], ARGV[n - OWN_KEYS + 3]
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
  local look = next_look(bucket, lane)
  if look then
    redis.call('ZADD', lanes, 'XX', 'LT', text(math.max(now, look)), lane)
  end
end
redis.call('PUBLISH', ARGV[1], '')
return left > 0 and 0 or 1
