-- Counts the entries of buckets that wait, by when they need attention.
-- KEYS buckets
-- ARGV bounds, ascending
-- Returns how many lie before the first bound, from there before the second, and
--   so on, and from the last bound on.
local counts = {}
for i = 1, #ARGV + 1 do
  counts[i] = 0
end

-- tally adds the entries from a score before another, between which lie the
-- bounds first to last. By halves, so that few ranges are counted where there are
-- few entries.
local function tally(bucket, first, last, from, to)
  local n = redis.call('ZCOUNT', bucket, from, to)
  if n == 0 then
    return
  elseif first > last then
    counts[first] = counts[first] + n
    return
  end
  local half = math.floor((first + last) / 2)
  tally(bucket, first, half - 1, from, '(' .. ARGV[half])
  tally(bucket, half + 1, last, ARGV[half], to)
end

for _, bucket in ipairs(KEYS) do
  tally(bucket, 1, #ARGV, '0', '+inf')
end
return counts
