-- Writes down what came of claims, for those whose token is still current.
-- KEYS lanes counts out held deads places ranks index busy endings, then of each lane: bucket ended
-- ARGV channel forget (1: keep no finished job) max_log max_bytes (of a log) reason_cancelled, the number of
--      outcomes, which many jobs may share: token to delay if_cancelled tries (attempts snoozes lapses) reason
--      dead (number of the group of dead letters, 0 unless to is dead), then for each job:
--      outcome (its number, from 1) attempt biz (number of its index, 0 for none)
-- Returns now, how jobs stand (state, next, ended, reason and version; -1 for no time), then for each job
--   0 applied, 1 applied by an earlier run, 2 stale, 3 missing, 4 left for another call, and for 0 and 1 the number of how it stands
--   (from 1), and its uid.
local lanes, counts, out, held, deads, places, ranks = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local index, busy, endings = KEYS[8], KEYS[9], KEYS[10]
local forget, max_log, max_bytes, reason_cancelled = ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = now_ms()
local standings = {}
local reply = { now, standings }
local emptied = {}
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled

local numbers = {}
local function answer(status, h, progress)
  local standing = 0
  if h then
    standing = numbers[h]
    if not standing then
      local i = #standings
      standing = i / 5 + 1
      numbers[h] = standing
      standings[i + 1], standings[i + 2], standings[i + 3], standings[i + 4], standings[i + 5] =
        h.state, tonumber(h.next) or -1, tonumber(h.ended) or -1, h.reason, tonumber(h.version)
    end
  end
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3] = status, standing, h and uid_of(h, progress) or ''
end

-- settled is the head that an outcome gives to jobs with the head h, of which some
-- have an attempt to be logged.
local function settled(h, outcome, logged)
  local successors = logged and outcome.logged or outcome.unlogged
  local new = successors[h]
  if new then
    return new
  end
  local to, reason = outcome.to, outcome.reason
  if h.cancel == '1' and outcome.if_cancelled ~= to then
    to, reason = outcome.if_cancelled, reason_cancelled
  end
  local next, ended, logs = '', '', h.logs
  if to >= FINAL then
    ended = text(now)
  else
    next = text(now + outcome.delay)
  end
  if logged then
    logs = text(math.min(number(logs, 0) + 1, max_log))
  end
  new = changed(h, {
    state = to, tries = outcome.tries, reason = reason, nonce = SETTLED, version = text(number(h.version, 1) + 1),
    next = next, ended = ended, logs = logs,
  })
  successors[h] = new
  return new
end

-- rewritten is a progress with its new head and the attempt appended, and the
-- oldest dropped when they are too many or too long; and that head.
local function rewritten(progress, h, new, attempt)
  local rest = string.sub(progress, #h.text + 2)
  if attempt == '' then
    return new.text .. '\n' .. rest, new
  end
  local kept, from = number(h.logs, 0), 17 -- behind the uid
  while kept >= max_log or kept > 0 and #rest + 1 - from + #attempt > max_bytes do
    local len, behind = string.match(rest, '^%d+ (%d+)\n()', from)
    if not len then
      break -- no log, which is told to those who read it
    end
    kept, from = kept - 1, behind + len
  end
  if from > 17 then
    rest = string.sub(rest, 1, 16) .. string.sub(rest, from)
    local logs = text(kept + 1)
    new = logs == new.logs and new or changed(new, { logs = logs })
  end
  return new.text .. '\n' .. rest .. (new.next == '' and '0' or new.next) .. ' ' .. text(#attempt) .. '\n' .. attempt, new
end

-- finish stores a job that has ended.
local function finish(j, h, progress, biz, dead)
  local lane, state = j.lane, h.state
  write('ZREM', lane.bucket, j.id)
  emptied[lane.name] = lane.bucket
  if forget and state ~= DEAD then
    forget_record(j)
    if biz then
      write('ZREM', biz, j.name)
    end
    return
  end
  write_progress(j, progress)
  write('ZADD', state == DEAD and dead or KEYS[lane.keys + 2], stamp(now, state - FINAL), j.id)
  if state == DEAD then
    write('ZADD', deads, 0, plain_of(lane.name) .. '|' .. h.reason)
  end
  count(lane.name, state, 1)
end

-- continue stores one that goes on.
local function continue(j, h, progress)
  local lane, next = j.lane, tonumber(h.next)
  local wake = math.min(next, number(h.expires, next))
  write_progress(j, progress)
  write('ZADD', lane.bucket, score(h.state, wake), j.id)
  look_at(lane.name, wake)
  count(lane.name, h.state, 1)
end

-- note_endings notes topics whose first jobs have ended, of which purging is to know.
-- Where there were others of the same state, it knows already.
local function note_endings(endings, new, now)
  local times, names = {}, {}
  for _, field in ipairs(new) do
    local topic, state = string.match(field, '^([^|=]+)|(%d)$')
    state = tonumber(state)
    if state and state >= FINAL and state ~= DEAD then
      local n = #names
      times[n + 1], times[n + 2] = text(now), topic
      names[n + 1], names[n + 2] = 0, 'd' .. topic
    end
  end
  if #names > 0 then
    redis.call('ZADD', endings, 'NX', unpack(times))
    redis.call('ZADD', index, unpack(names))
  end
end

local OUTCOMES = 6 -- where in ARGV their number is
local outcomes = {}
for n = 1, tonumber(ARGV[OUTCOMES]) do
  local a = OUTCOMES + 7 * (n - 1)
  outcomes[text(n)] = {
    token = ARGV[a + 1], to = tonumber(ARGV[a + 2]), delay = tonumber(ARGV[a + 3]), if_cancelled = tonumber(ARGV[a + 4]),
    tries = ARGV[a + 5], reason = ARGV[a + 6], dead = ARGV[a + 7], logged = {}, unlogged = {},
  }
end

local jobs, others = batch(10, 2, OUTCOMES + 7 * ARGV[OUTCOMES], 6)
read_scores(jobs)
for _, j in ipairs(jobs) do
  local outcome, attempt, biz = outcomes[ARGV[j.args + 1]], ARGV[j.args + 2], ARGV[j.args + 3]
  local progress = progresses[j.field]
  local h = progress and head_of(progress)
  if progress == nil then
    answer(4)
  elseif not h then
    answer(redis.call('HEXISTS', j.page, j.name) == 1 and 2 or 3)
  elseif h.token ~= outcome.token or h.state ~= RUNNING and h.nonce ~= SETTLED then
    answer(2)
  elseif h.state ~= RUNNING then
    answer(1, h, progress)
  else
    local new = settled(h, outcome, attempt ~= '')
    count(j.lane.name, j.score and place(j.score) or RUNNING, -1)
    progress, new = rewritten(progress, h, new, attempt)
    if new.state >= FINAL then
      finish(j, new, progress, others[biz], others[outcome.dead])
    else
      continue(j, new, progress)
    end
    answer(0, new, progress)
  end
end
write_all()
local without_jobs = {}
for lane, bucket in pairs(emptied) do
  if redis.call('EXISTS', bucket) == 0 then
    without_jobs[#without_jobs + 1] = lane
  end
end
forget_lanes(lanes, ranks, index, without_jobs)
local new, gone = write_counts(counts, out, busy)
if not forget then
  note_endings(endings, new, now)
elseif #without_jobs > 0 then
  drop_topics(counts, index, gone)
end
write_lanes(lanes, held, places, ARGV[1], now)
return reply
