-- Entries of jobs: of unfinished ones in buckets, of dead letters in groups, which the ZSET deads
-- names, and of other ended jobs by topic. The ZSET endings has of each topic when the first of
-- those ended, or earlier.

-- group_name is the name of a group by its key: dead:<name> beside the key deads.
local function group_name(key)
  return string.sub(key, #deads + 1)
end

-- note_end notes for purging when a job ended.
local ends = {}
local function note_end(topic, ms)
  if not ends[topic] or ms < ends[topic] then
    ends[topic] = ms
  end
end

-- enter adds the entry of a job in a state to a ZSET.
local function enter(j, to, state, ms)
  count(j.lane.counts, state, 1)
  if state < FINAL then
    write('ZADD', to, score(state, ms), j.id)
    look_at(j.lane.name, ms)
    return
  end
  write('ZADD', to, stamp(ms, state - FINAL), j.id)
  if state == DEAD then
    write('ZADD', deads, 0, group_name(to))
    write('ZADD', index, 0, 't' .. j.lane.topic)
  else
    note_end(j.lane.topic, ms)
  end
end

local function write_ends()
  for topic, ms in pairs(ends) do
    redis.call('ZADD', endings, 'LT', ms, topic)
    redis.call('ZADD', index, 0, 't' .. topic, 0, 'd' .. topic)
  end
end
