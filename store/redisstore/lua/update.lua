-- Puts a new record in the place of one that nobody has changed since it was read. A job
-- whose record is gone leaves all indexes.
-- KEYS own: those of the shard, the page, and where the job's entry is and goes. The old and
--      the new ones may be the same.
-- ARGV channel id member (topic/id) old_lane new_lane
--      old_registration old_progress registration progress ('' for none)
--      state (the new one) place (ms of the new score; '' leaves the entry where it is)
--      old_biz? new_biz? (1: the job is in that index) old_group new_group (of dead letters)
--      obey (1: a job that was not unfinished is subject to the limits of its topic)
-- Returns 1 when it is done, 2 when an earlier run did it, 0 when something else stands
--   there, 3 when the topic is full, 4 when it is draining.
local channel, id, member, old_lane, new_lane, old_registration, old_progress, registration, progress, state, ms,
  in_old_biz, in_new_biz, old_group, new_group, obey = unpack(ARGV)
state, ms = tonumber(state), tonumber(ms)

local now = now_ms()
local member_since = progress_field(member)
local stored = redis.call('HMGET', page, member, member_since)
stored = { stored[1] or '', stored[2] or '' }
if registration ~= '' and stored[1] == registration and stored[2] == progress then
  return 2 -- two updates differ at least in their marks
elseif stored[1] ~= old_registration or stored[2] ~= old_progress then
  return 0
end

-- Where the job's entry is, and its state there.
local at, from
if old_registration .. old_progress ~= '' then
  for _, zset in ipairs({ old_bucket, old_dead, ended }) do
    local s = redis.call('ZSCORE', zset, id)
    if s then
      at, from = zset, place(tonumber(s))
      from = zset == old_bucket and from or zset == old_dead and DEAD or from + FINAL
      break
    end
  end
end

if obey == '1' and state < FINAL and (not from or from >= FINAL) then
  local topic = topic_of(new_lane)
  local limits = limits_of(topics, { new_lane })[topic]
  local room = limits and room_in(limits, counts, topic)
  if limits and limits.draining then
    return 4
  elseif room and room <= 0 then
    return 3
  end
end

if registration == '' then
  redis.call('HDEL', page, member, member_since)
elseif progress == '' then
  redis.call('HDEL', page, member_since)
  redis.call('HSET', page, member, registration)
else
  redis.call('HSET', page, member, registration, member_since, progress)
end
if not ms then
  return 1
end

if at then
  redis.call('ZREM', at, id)
  count(old_lane, from, -1)
  if from == DEAD and redis.call('EXISTS', old_dead) == 0 then
    redis.call('ZREM', deads, old_group)
  end
  -- A lane that loses its head must not be looked at for nothing; one that
  -- waits for its turn, or is put off, stays where it is.
  local look = next_look(old_bucket)
  if not look then
    forget_lanes(lanes, ranks, index, { old_lane })
  elseif from < FINAL and look > now then
    redis.call('ZADD', lanes, 'XX', 'GT', look, old_lane)
  end
end
if in_old_biz == '1' then
  redis.call('ZREM', old_biz, member)
end
if registration ~= '' then
  local topic = topic_of(new_lane)
  if state < FINAL then
    redis.call('ZADD', new_bucket, score(state, ms), id)
    look_at(new_lane, ms)
  elseif state == DEAD then
    redis.call('ZADD', new_dead, stamp(ms, DEAD - FINAL), id)
    redis.call('ZADD', deads, 0, new_group)
    redis.call('ZADD', index, 0, 't' .. topic)
  else
    redis.call('ZADD', ended, stamp(ms, state - FINAL), id)
    redis.call('ZADD', endings, 'LT', ms, topic)
    redis.call('ZADD', index, 0, 't' .. topic, 0, 'd' .. topic)
  end
  if in_new_biz == '1' then
    redis.call('ZADD', new_biz, 0, member)
  end
  count(new_lane, state, 1)
end
local _, gone = write_counts(counts, out, busy)
if registration == '' then
  drop_topics(counts, index, gone)
end
write_lanes(lanes, held, places, channel, now, ranks, index)
return 1
