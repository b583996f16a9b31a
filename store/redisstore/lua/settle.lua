-- Writes down what came of claims, for those whose token is still current.
-- KEYS lanes counts out held deads places, then of each lane: bucket ended
-- ARGV channel forget (1: keep no finished job) max_log reason_cancelled, then for each job:
--      token to delay if_cancelled tries (attempts snoozes lapses) reason attempt biz (number of its index, 0 for none)
--      dead (number of its group of dead letters, 0 unless to is dead)
-- Returns now, then for each job: 0 applied, 1 applied by an earlier run,
--   2 stale, 3 missing; and for 0 and 1 what stands there: state, next, ended, reason, version, uid.
local lanes, counts, out, held, deads, places = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local forget, max_log, reason_cancelled = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4]
local now = now_ms()
local reply = { now }
local emptied = {}
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled

local function answer(status, h, rec)
  local i = #reply
  if not h then
    reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4], reply[i + 5], reply[i + 6], reply[i + 7] = status, 0, -1, -1, '', 0, ''
    return
  end
  local next, ended = -1, number(h[ENDED], -1)
  if ended >= 0 then
    ended = h[CREATED] + ended
  else
    next = h[CREATED] + number(h[NEXT], h[DUE])
  end
  reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4], reply[i + 5], reply[i + 6], reply[i + 7] =
    status, h[STATE], next, ended, h[REASON], tonumber(h[VERSION]), uid_of(h, rec)
end

-- logged is the record's rest with the attempt appended, and the oldest
-- dropped when there are too many.
local function logged(h, rest, attempt, next)
  if attempt == '' then
    return rest
  end
  local logs = number(h[LOGS], 0)
  if h[SPEC] == '' then
    h[SPEC] = #rest - 16
  elseif logs >= max_log then
    local start = 17 + h[SPEC]
    local len, from = string.match(rest, '^%-?%d+ (%d+)\n()', start)
    rest = string.sub(rest, 1, start - 1) .. string.sub(rest, from + len)
    logs = logs - 1
  end
  h[LOGS] = logs + 1
  return rest .. next .. ' ' .. #attempt .. '\n' .. attempt
end

-- finish stores a job that has ended.
local function finish(j, h, rest, attempt, biz, dead)
  local lane, state = j.lane, h[STATE]
  h[NEXT], h[ENDED] = -1, now - h[CREATED]
  write('ZREM', lane.bucket, j.id)
  emptied[lane.name] = lane.bucket
  if forget and state ~= DEAD then
    forget_record(j)
    if biz then
      write('ZREM', biz, j.name)
    end
    return
  end
  rest = logged(h, rest, attempt, 0)
  write_record(j, render(h, rest))
  write('ZADD', state == DEAD and dead or KEYS[lane.keys + 2], stamp(now, state - FINAL), j.id)
  if state == DEAD then
    write('ZADD', deads, 0, lane.name .. '|' .. h[REASON])
  end
  count(lane.name, state, 1)
end

-- continue stores one that goes on after a delay.
local function continue(j, h, rest, attempt, delay)
  local lane, state = j.lane, h[STATE]
  h[NEXT], h[ENDED] = now + delay - h[CREATED], ''
  local wake = math.min(h[NEXT], number(h[EXPIRES], h[NEXT]))
  rest = logged(h, rest, attempt, h[CREATED] + h[NEXT])
  write_record(j, render(h, rest))
  write('ZADD', lane.bucket, score(state, h[CREATED] + wake), j.id)
  look_at(lane.name, h[CREATED] + wake)
  count(lane.name, state, 1)
end

local jobs, others = batch(6, 2, 4, 12)
read_scores(jobs)
for _, j in ipairs(jobs) do
  local a = j.args
  local rec = records[j.name]
  local h = rec and parse(rec)
  if not h then
    answer(3)
  elseif h[TOKEN] ~= ARGV[a + 1] or h[STATE] ~= RUNNING and h[NONCE] ~= SETTLED then
    answer(2)
  elseif h[STATE] ~= RUNNING then
    answer(1, h, rec)
  else
    local to, reason, if_cancelled = tonumber(ARGV[a + 2]), ARGV[a + 6], tonumber(ARGV[a + 4])
    if h[CANCEL] == '1' and if_cancelled ~= to then
      to, reason = if_cancelled, reason_cancelled
    end
    count(j.lane.name, j.score and place(j.score) or RUNNING, -1)
    h[STATE], h[TRIES], h[REASON], h[NONCE], h[VERSION] = to, ARGV[a + 5], reason, SETTLED, number(h[VERSION], 1) + 1
    local rest = string.sub(rec, h[BODY])
    if to >= FINAL then
      finish(j, h, rest, ARGV[a + 7], others[ARGV[a + 8]], others[ARGV[a + 9]])
    else
      continue(j, h, rest, ARGV[a + 7], ARGV[a + 3])
    end
    answer(0, h, rec)
  end
end
write_all()
for lane, bucket in pairs(emptied) do
  drop_lane(lanes, bucket, lane)
end
write_counts(counts, out)
write_lanes(lanes, held, places, ARGV[1], now)
return reply
