-- Reads the entries of a ZSET that follow a position, by (score, member).
-- KEYS zset
-- ARGV n, then score and member of the position, or nothing for the start
-- Returns members and scores in turn.
local key, n = KEYS[1], tonumber(ARGV[1])
local from = 0
if ARGV[2] then
  -- Ranks of the entries of that score are [from, behind): find the first
  -- whose member is greater.
  from = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[2])
  local behind = from + redis.call('ZCOUNT', key, ARGV[2], ARGV[2])
  while from < behind do
    local middle = math.floor((from + behind) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] <= ARGV[3] then
      from = middle + 1
    else
      behind = middle
    end
  end
end
return redis.call('ZRANGE', key, from, from + n - 1, 'WITHSCORES')
