-- Puts a new record in the place of one that nobody has changed meanwhile.
-- KEYS lanes counts out held page old_bucket new_bucket old_dead ended old_biz new_biz new_dead deads topics places ranks index busy endings
-- ARGV channel id member (topic/id) old_lane new_lane
--      uid version (what must stand there; uid '' means: no record may)
--      registration progress (the new ones; '' for none: both forget the job)
--      state (the new one) place (ms of the bucket's or list's score; '' leaves the entry where it is)
--      old_biz? new_biz? (1: the job is in that index)
--      old_group new_group (of dead letters)
--      obey (1: a job that was not unfinished before is subject to the limits of its topic)
-- Returns 1 when it is done, 2 when an earlier run did it, 0 when something else stands there,
--   3 when the topic is full, 4 when it is draining.
local lanes, counts, out, held, page, old_bucket, new_bucket, old_dead, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4],
  KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local id, member, old_lane, new_lane = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local uid, version, registration, progress = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local state, ms = tonumber(ARGV[10]), tonumber(ARGV[11])

local now = now_ms()
local member_since = progress_field(member)
local old = redis.call('HMGET', page, member, member_since)
if old[1] == registration and (old[2] or '') == progress then
  return 2 -- two updates differ at least in their marks
end
local from = nil
if old[1] or old[2] then
  local h, uid_there = parse(old[1], old[2])
  if not h or number(h.version, 1) ~= tonumber(version) or uid_there ~= uid then
    return 0
  end
  from = h.state
elseif uid ~= '' then
  return 0
end

if ARGV[16] == '1' and state < FINAL and (not from or from >= FINAL) then
  local topic = topic_of(new_lane)
  local limits = limits_of(KEYS[14], { new_lane })[topic]
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

if from then
  local s = redis.call('ZSCORE', old_bucket, id)
  if s then
    from = place(tonumber(s))
    redis.call('ZREM', old_bucket, id)
  elseif from == DEAD then
    redis.call('ZREM', old_dead, id)
    if redis.call('EXISTS', old_dead) == 0 then
      redis.call('ZREM', KEYS[13], ARGV[14])
    end
  else
    redis.call('ZREM', ended, id)
  end
  if ARGV[12] == '1' then
    redis.call('ZREM', KEYS[10], member)
  end
  count(old_lane, from, -1)
  -- A lane that loses its head must not be looked at for nothing; one that
  -- waits for its turn, or is held, stays where it is.
  local look = next_look(old_bucket)
  if not look then
    forget_lanes(lanes, KEYS[16], KEYS[17], { old_lane })
  elseif s and look > now then
    redis.call('ZADD', lanes, 'XX', 'GT', look, old_lane)
  end
end
if registration ~= '' then
  if state < FINAL then
    redis.call('ZADD', new_bucket, score(state, ms), id)
    look_at(new_lane, ms)
  else
    redis.call('ZADD', state == DEAD and KEYS[12] or ended, stamp(ms, state - FINAL), id)
    redis.call('ZADD', KEYS[17], 0, 't' .. topic_of(new_lane))
    if state == DEAD then
      redis.call('ZADD', KEYS[13], 0, ARGV[15])
    else
      redis.call('ZADD', KEYS[19], 'LT', ms, topic_of(new_lane))
      redis.call('ZADD', KEYS[17], 0, 'd' .. topic_of(new_lane))
    end
  end
  if ARGV[13] == '1' then
    redis.call('ZADD', KEYS[11], 0, member)
  end
  count(new_lane, state, 1)
end
local _, gone = write_counts(counts, out, KEYS[18])
if registration == '' then
  drop_topics(counts, KEYS[17], gone)
end
write_lanes(lanes, held, KEYS[15], ARGV[1], now, KEYS[16], KEYS[17])
return 1
