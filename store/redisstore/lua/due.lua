-- Counts the entries of buckets that wait, by when they need attention, until all are
-- counted or it has taken too many commands. Parked entries count by when they are due.
-- KEYS buckets
-- ARGV most commands, then bounds, ascending
-- Returns how many buckets it counted, and with how many commands; then how many
--   entries lie before the first bound, from there before the second, and so on, and
--   from the last bound on.
local most, bounds, used = tonumber(ARGV[1]), #ARGV - 1, 0
local counts, at = {}, {}
for i = 1, bounds + 1 do
  counts[i], at[i] = 0, tonumber(ARGV[i + 1])
end

-- range_of is in which range a score lies: how many bounds it has reached, and one.
local function range_of(score)
  local low, high = 1, bounds + 1
  while low < high do
    local half = math.floor((low + high) / 2)
    if score < at[half] then
      high = half
    else
      low = half + 1
    end
  end
  return low
end

-- tally adds n entries from a score before another, between which lie the bounds
-- first to last, plus shift. By halves, so that few ranges are counted where there are few
-- entries.
local function tally(bucket, n, first, last, from, to, shift)
  if n == 0 then
    return
  elseif first > last then
    counts[first] = counts[first] + n
    return
  end
  local half = math.floor((first + last) / 2)
  local bound = text(at[half] + shift)
  used = used + 1
  local before = redis.call('ZCOUNT', bucket, from, '(' .. bound)
  tally(bucket, before, first, half - 1, from, '(' .. bound, shift)
  tally(bucket, n - before, half + 1, last, bound, to, shift)
end

-- What has few entries is read at once.
local FEW = 8
local done = 0
for _, bucket in ipairs(KEYS) do
  local entries = redis.call('ZRANGE', bucket, 0, '+inf', 'BYSCORE', 'LIMIT', 0, FEW + 1, 'WITHSCORES')
  used = used + 1
  if #entries <= 2 * FEW then
    for i = 2, #entries, 2 do
      local score = tonumber(entries[i])
      local range = range_of(score < PARK and score or score - PARK)
      counts[range] = counts[range] + 1
    end
  else
    local function tally_all(from, to, shift)
      used = used + 1
      tally(bucket, redis.call('ZCOUNT', bucket, from, to), 1, bounds, from, to, shift)
    end
    tally_all('0', '(' .. text(PARK), 0)
    if ordered(bucket) then
      tally_all(text(PARK), '+inf', PARK)
    end
  end
  done = done + 1
  if used >= most then
    break
  end
end
return { done, used, unpack(counts) }
