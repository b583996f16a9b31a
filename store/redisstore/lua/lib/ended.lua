-- Ended jobs. The ZSET endings has of each topic when the first of its ended jobs ended, or
-- earlier, without dead letters. Those are in groups, which the ZSET deads names.

-- group_name is the name of a group by its key: dead:<name> beside the key deads.
local function group_name(key)
  return string.sub(key, #deads + 1)
end

-- note_end notes for purging when a job ended.
local ends = {}
local function note_end(topic, ms)
  ends[topic] = math.min(ends[topic] or ms, ms)
end

local function write_ends()
  for topic, ms in pairs(ends) do
    redis.call('ZADD', endings, 'LT', ms, topic)
    redis.call('ZADD', index, 0, 't' .. topic, 0, 'd' .. topic)
  end
end
