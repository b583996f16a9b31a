-- Replaces or forgets records that nobody has changed since they were read.
-- KEYS own, then of each lane: bucket, ended
-- ARGV channel obey (1: new unfinished jobs obey the limits of their topics), then for each job
--      with its new lane: was_registration was_progress (how they begin; '' for none),
--      registration ('': as it is) progress ('': none), state (-1: forget the job) ms (of the new
--      score; '': its entry stays) group names, old_state (-1: it has no entry) old_lane
--      old_group old_names; groups of dead letters, indexes of names and hashes of counted jobs by number, 0 for none;
--      after (number of the change, from 1, without which this one is not made; 0: none; below
--      zero: its job obeys the capacity of the topic, too);
--      turn and old_turn ("<topic>/<order key> <turn>", '' without a key; the turn of a dead letter is
--      a claimed one if it stops its key whatever the limits say);
--      counted (of the job; it need not expire) old_counted (to be deleted)
-- Returns for each job 1 when it is done, 2 when an earlier run did it, 0 when the record is
--   another, 3 when the topic is full, 4 when it is draining, 5 when it is for another call.
local obey = ARGV[2] == '1'
local now = now_ms()
check_types()
local jobs, others, by_number = batch(2, 2, 20)

-- index_of is the ZSET of the jobs of a state.
local function index_of(lane, state, group)
  return state < FINAL and lane.bucket or state == DEAD and others[group] or lane.ended
end

for _, j in ipairs(jobs) do
  local a = j.args
  local state = tonumber(ARGV[a + 9])
  j.from = by_number[ARGV[a + 10]]
  j.at = state >= 0 and index_of(j.from, state, ARGV[a + 11])
end
read_scores(jobs)

local order = nil -- the functions of lib/turns.lua

-- turn_of is the order key in an argument, and the job with its turn; nil without a key.
local function turn_of(arg, lane, id)
  if arg == '' then
    return nil
  end
  order = order or open_turns()
  local key, turn = string.match(arg, '^([^ ]*) (.*)$')
  return key, turn .. lane.name .. '|' .. id
end

-- Buckets, groups and lists of ended jobs that entries have left, each by its lane.
local left_buckets, left_groups, left_ended = {}, {}, {}
local forgotten = false

-- leave takes a job out of the index in which it has the state from.
local function leave(j, from, to)
  count(j.from.counts, from, -1)
  if j.at ~= to then
    write('ZREM', j.at, j.id)
  end
  local left = from < FINAL and left_buckets or from == DEAD and left_groups or left_ended
  left[j.at] = j.from
end

local reply = {}
local function change(j)
  local a = j.args
  local after = tonumber(ARGV[a + 13])
  local passing = after < 0
  after = math.abs(after)
  if after > 0 and reply[after] ~= 1 then
    return reply[after] == 5 and 5 or 0
  end
  local registration, progress, state, ms = ARGV[a + 3], ARGV[a + 4], tonumber(ARGV[a + 5]), tonumber(ARGV[a + 6])
  local part, was, new = stored[j.field], ARGV[a + 2], progress
  if part == nil then
    return 5
  elseif not part and was == '' then
    -- Any change of a job changes its progress, so the registration counts only without one.
    part, was, new = redis.call('HGET', j.page, name_of(j)), ARGV[a + 1], progress == '' and registration
  end
  if state >= 0 and part and part == new then
    return 2 -- two changes differ at least in their marks
  elseif was == '' and part or was ~= '' and not (part and string.sub(part, 1, #was) == was) then
    return 0
  end
  local from = j.score and place(tonumber(j.score))
  if from and j.at ~= j.from.bucket then
    from = from + FINAL
  end
  local refused = (passing or obey and after == 0) and state >= 0 and state < FINAL and not (from and from < FINAL)
    and refusal(j.lane.topic, passing)
  if refused then
    return refused == 'full' and 3 or 4
  end
  if registration ~= '' then
    write_part(j, name_of(j), registration)
  elseif state < 0 then
    forget_part(j, name_of(j))
    forgotten = true
  end
  if progress ~= '' then
    write_part(j, j.field, progress)
  elseif stored[j.field] then
    forget_part(j, j.field)
  end
  local counted_now, counted_before = others[ARGV[a + 16]], others[ARGV[a + 17]]
  if counted_now then
    redis.call('PERSIST', counted_now)
  end
  if counted_before then
    redis.call('UNLINK', counted_before)
  end
  if not ms then
    return 1
  end
  local to = state >= 0 and index_of(j.lane, state, ARGV[a + 7])
  local old_key, old_turn = turn_of(ARGV[a + 15], j.from, j.id)
  local was_head = false
  if old_key then
    was_head = order.leave(old_key, old_turn)
  end
  if from then
    leave(j, from, to)
  end
  local key, turn = turn_of(ARGV[a + 14], j.lane, j.id)
  if key and state >= 0 and state < FINAL then
    if was_head and tonumber(ARGV[a + 9]) == DEAD and order.same(turn, old_turn) then
      order.put_first(key, turn)
    elseif not order.enter(key, turn) then
      ms = ms + PARK
    end
  elseif key and state == DEAD and (stops_on_dead(j.lane.topic) or string.sub(turn, 1, 1) == CLAIMED_TURN) then
    order.stop(key, turn)
  end
  if to then
    enter(j, to, state, ms)
  end
  unindex_job(j, ARGV[a + 12], ARGV[a + 8])
  index_job(j, ARGV[a + 8])
  return 1
end

for n, j in ipairs(jobs) do
  reply[n] = change(j)
end
if order then
  order.write(now)
end
write_all()
leave_lanes(left_buckets, now)
for group in pairs(left_groups) do
  if redis.call('EXISTS', group) == 0 then
    redis.call('ZREM', deads, group_name(group))
  end
end
for ended, lane in pairs(left_ended) do
  local first = redis.call('ZRANGE', ended, 0, 0, 'WITHSCORES')[2]
  if first then
    redis.call('ZADD', endings, math.floor(tonumber(first)), lane.topic)
  else
    redis.call('ZREM', endings, lane.topic)
    redis.call('ZREM', index, 'd' .. lane.topic)
  end
end
write_ends()
local gone = write_counts()
if forgotten then
  drop_topics(gone)
end
write_lanes(ARGV[1], now)
return reply
