-- Writes down what came of claims, for those whose token is still current.
-- KEYS lanes counts out held deads places ranks, then of each lane: bucket ended
-- ARGV channel forget (1: keep no finished job) max_log reason_cancelled, the number of outcomes, which many
--      jobs may share: to delay if_cancelled tries (attempts snoozes lapses) reason, then for each job:
--      token outcome (its number, from 1) attempt biz (number of its index, 0 for none)
--      dead (number of its group of dead letters, 0 unless to is dead)
-- Returns now, then for each job: 0 applied, 1 applied by an earlier run,
--   2 stale, 3 missing; and for 0 and 1 what stands there: state, next, ended, reason, version, uid.
local lanes, counts, out, held, deads, places, ranks = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local forget, max_log, reason_cancelled = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4]
local now = now_ms()
local reply = { now }
local emptied = {}
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled

local function answer(status, h, progress)
  local i = #reply
  if not h then
    reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4], reply[i + 5], reply[i + 6], reply[i + 7] = status, 0, -1, -1, '', 0, ''
    return
  end
  local next, ended = -1, -1
  if h[ENDED] ~= '' then
    ended = h[CREATED] + h[ENDED]
  else
    next = h[CREATED] + number(h[NEXT], h[DUE])
  end
  reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4], reply[i + 5], reply[i + 6], reply[i + 7] =
    status, h[STATE], next, ended, h[REASON], tonumber(h[VERSION]), uid_of(h, progress)
end

-- rewritten is the progress with its new head and the attempt appended, and the
-- oldest dropped when there are too many. rest is uid and log, next is when the
-- job goes on.
local function rewritten(h, rest, attempt, next)
  if attempt == '' then
    return render(h) .. '\n' .. rest
  end
  local logs = number(h[LOGS], 0)
  if logs >= max_log then
    local len, from = string.match(rest, '^%-?%d+ (%d+)\n()', 17)
    rest = string.sub(rest, 1, 16) .. string.sub(rest, from + len)
    logs = logs - 1
  end
  h[LOGS] = text(logs + 1)
  return render(h) .. '\n' .. rest .. text(next) .. ' ' .. text(#attempt) .. '\n' .. attempt
end

-- finish stores a job that has ended.
local function finish(j, h, rest, attempt, biz, dead)
  local lane, state = j.lane, h[STATE]
  h[NEXT], h[ENDED] = NONE, text(now - h[CREATED])
  write('ZREM', lane.bucket, j.id)
  emptied[lane.name] = lane.bucket
  if forget and state ~= DEAD then
    forget_record(j)
    if biz then
      write('ZREM', biz, j.name)
    end
    return
  end
  write_progress(j, rewritten(h, rest, attempt, 0))
  write('ZADD', state == DEAD and dead or KEYS[lane.keys + 2], stamp(now, state - FINAL), j.id)
  if state == DEAD then
    write('ZADD', deads, 0, plain_of(lane.name) .. '|' .. h[REASON])
  end
  count(lane.name, state, 1)
end

-- continue stores one that goes on after a delay.
local function continue(j, h, rest, attempt, delay)
  local lane, state = j.lane, h[STATE]
  local next = now + delay - h[CREATED]
  h[NEXT], h[ENDED] = text(next), ''
  local wake = math.min(next, number(h[EXPIRES], next))
  write_progress(j, rewritten(h, rest, attempt, h[CREATED] + next))
  write('ZADD', lane.bucket, score(state, h[CREATED] + wake), j.id)
  look_at(lane.name, h[CREATED] + wake)
  count(lane.name, state, 1)
end

local OUTCOMES = 5 -- where in ARGV their number is
local outcomes = {}
for n = 1, tonumber(ARGV[OUTCOMES]) do
  local a = OUTCOMES + 5 * (n - 1)
  outcomes[text(n)] = {
    to = tonumber(ARGV[a + 1]), delay = tonumber(ARGV[a + 2]), if_cancelled = tonumber(ARGV[a + 3]),
    tries = ARGV[a + 4], reason = ARGV[a + 5],
  }
end

local jobs, others = batch(7, 2, OUTCOMES + 5 * ARGV[OUTCOMES], 8)
read_scores(jobs)
for _, j in ipairs(jobs) do
  local a = j.args
  local progress = progresses[j.name]
  local h = progress and parse_progress(progress)
  if not h then
    answer(redis.call('HEXISTS', j.page, j.name) == 1 and 2 or 3)
  elseif h[TOKEN] ~= ARGV[a + 1] or h[STATE] ~= RUNNING and h[NONCE] ~= SETTLED then
    answer(2)
  elseif h[STATE] ~= RUNNING then
    answer(1, h, progress)
  else
    local outcome = outcomes[ARGV[a + 2]]
    local to, reason = outcome.to, outcome.reason
    if h[CANCEL] == '1' and outcome.if_cancelled ~= to then
      to, reason = outcome.if_cancelled, reason_cancelled
    end
    count(j.lane.name, j.score and place(j.score) or RUNNING, -1)
    h[STATE], h[TRIES], h[REASON], h[NONCE], h[VERSION] = to, outcome.tries, reason, SETTLED, text(number(h[VERSION], 1) + 1)
    local rest = string.sub(progress, h[BODY])
    if to >= FINAL then
      finish(j, h, rest, ARGV[a + 3], others[ARGV[a + 4]], others[ARGV[a + 5]])
    else
      continue(j, h, rest, ARGV[a + 3], outcome.delay)
    end
    answer(0, h, progress)
  end
end
write_all()
for lane, bucket in pairs(emptied) do
  drop_lane(lanes, ranks, bucket, lane)
end
write_counts(counts, out)
write_lanes(lanes, held, places, ARGV[1], now)
return reply
