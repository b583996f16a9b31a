-- Reads the entries of a ZSET that follow a position, by (score, member).
-- KEYS zset
-- ARGV n back (1: those before the position), then score and member of the position, or
--      nothing for the start (back: the end)
-- Returns members and scores in turn, ascending.
local key, n, back = KEYS[1], tonumber(ARGV[1]), ARGV[2] == '1'
local from = back and redis.call('ZCARD', key) or 0
if ARGV[3] then
  -- Ranks of the entries of that score are [from, behind): find the first
  -- whose member is greater (back: is not less).
  from = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[3])
  local behind = from + redis.call('ZCOUNT', key, ARGV[3], ARGV[3])
  while from < behind do
    local middle = math.floor((from + behind) / 2)
    local member = redis.call('ZRANGE', key, middle, middle)[1]
    if member < ARGV[4] or not back and member == ARGV[4] then
      from = middle + 1
    else
      behind = middle
    end
  end
end
if not back then
  return redis.call('ZRANGE', key, from, from + n - 1, 'WITHSCORES')
elseif from == 0 then
  return {}
end
return redis.call('ZRANGE', key, math.max(0, from - n), from - 1, 'WITHSCORES')
