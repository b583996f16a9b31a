-- Writes the outcomes of claims whose token is still current.
-- KEYS own, then of each lane: bucket, ended
-- ARGV channel forget (1: keep no ended job) max_log max_bytes (of a log), the number of
--      outcomes, which jobs share: token, tries (attempts snoozes expired leases), then twice, for a
--      job as it is and for one with a cancel request: state, delay (or a time below zero),
--      reason and group of dead letters (its number, 0 for none); then for each job: outcome
--      (its number, from 1) attempt, created ("<created> <order key>" with one), names (numbers
--      of its indexes, 0 for none)
-- Returns now, the results that jobs share (state, next, ended, reason and version; -1 for
--   no time), then for each job 0 applied, 1 applied by an earlier run, 2 stale, 3 missing,
--   4 left for another call; and for 0 and 1 the number of its result (from 1) and its uid.
local forget, max_log, max_bytes = ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[4])
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled
local now = now_ms()
local results = {}
local reply = { now, results }
local emptied = {}

local numbers = {}
local function answer(status, h, progress)
  local result = 0
  if h then
    result = numbers[h]
    if not result then
      local i = #results
      result = i / 5 + 1
      numbers[h] = result
      results[i + 1], results[i + 2], results[i + 3], results[i + 4], results[i + 5] =
        h.state, tonumber(h.next) or -1, tonumber(h.ended) or -1, h.reason, tonumber(h.version)
    end
  end
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3] = status, result, h and uid_of(h, progress) or ''
end

-- settled is the head that an outcome gives to jobs with the head h. Some have an attempt
-- for the log. A job registered later than now, in the place of another, ends then.
local function settled(h, outcome, to, logged, created)
  local at = now
  if to.state >= FINAL and tonumber(created) > now then
    at = tonumber(created)
  end
  local successors = outcome.successors[h] or {}
  outcome.successors[h] = successors
  local key = logged and at or -at
  local new = successors[key]
  if not new then
    new = changed(h, {
      state = to.state, tries = outcome.tries, reason = to.reason, nonce = SETTLED, version = text(number(h.version, 1) + 1),
      next = to.state < FINAL and text(to.delay < 0 and math.max(now, -to.delay) or now + to.delay) or '', ended = to.state >= FINAL and text(at) or '',
      logs = logged and text(math.min(number(h.logs, 0) + 1, max_log)) or h.logs,
    })
    successors[key] = new
  end
  return new
end

-- rewritten is a progress with its new head and the attempt appended, and that head. The
-- oldest attempts go when there are too many or they are too long.
local function rewritten(progress, h, new, attempt)
  local rest = string.sub(progress, #h.text + 2)
  if attempt == '' then
    return new.text .. '\n' .. rest, new
  end
  local kept, from = number(h.logs, 0), 17 -- behind the uid
  while kept >= max_log or kept > 0 and #rest + 1 - from + #attempt > max_bytes do
    local len, behind = string.match(rest, '^%d+ (%d+)\n()', from)
    if not len then
      break -- unreadable, as readers will see
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
local function finish(j, h, progress, names, group)
  local lane, state = j.lane, h.state
  write('ZREM', lane.bucket, j.id)
  emptied[lane.bucket] = lane
  if forget and state ~= DEAD then
    forget_part(j, j.name)
    forget_part(j, j.field)
    unindex_job(j, names, '')
    return
  end
  write_part(j, j.field, progress)
  write('ZADD', group or lane.ended, stamp(tonumber(h.ended), state - FINAL), j.id)
  if group then
    write('ZADD', deads, 0, group_name(group))
  else
    note_end(lane.topic, tonumber(h.ended))
  end
  count(lane.name, state, 1)
end

-- continue stores a job that has another attempt.
local function continue(j, h, progress)
  local next = tonumber(h.next)
  local wake = math.min(next, number(h.expires, next))
  write_part(j, j.field, progress)
  write('ZADD', j.lane.bucket, score(h.state, wake), j.id)
  look_at(j.lane.name, wake)
  count(j.lane.name, h.state, 1)
end

local OWN_ARGS, PER_OUTCOME = 5, 10
local outcomes, last = {}, OWN_ARGS + PER_OUTCOME * ARGV[OWN_ARGS]
for a = OWN_ARGS, last - 1, PER_OUTCOME do
  local function to(at)
    return { state = tonumber(ARGV[at]), delay = tonumber(ARGV[at + 1]), reason = ARGV[at + 2], group = ARGV[at + 3] }
  end
  outcomes[#outcomes + 1] = { token = ARGV[a + 1], tries = ARGV[a + 2], usual = to(a + 3), cancelled = to(a + 7), successors = {} }
end

local jobs, others = batch(last, 2, 7)
read_scores(jobs)

-- pass_turn has the next job of an order key go, unless the dead letter stops the key. The job
-- that ended has a uid.
local order = nil -- the functions of lib/turns.lua
local function pass_turn(j, state, key, uid)
  if not order then
    order = open_turns()
  end
  if forget and state ~= DEAD then
    order.forget_last(key, j.id)
  else
    order.note_last(key, uid, j.id)
  end
  if state ~= DEAD or not order.stops_on_dead(j.lane.topic) then
    order.leave(key, string.rep('0', TURN) .. j.lane.name .. '|' .. j.id)
  end
end
for _, j in ipairs(jobs) do
  local a = j.args
  local outcome, attempt, created = outcomes[tonumber(ARGV[a + 1])], ARGV[a + 2], ARGV[a + 3]
  local progress = stored[j.field]
  local order_key
  if j.lane.ordered then
    created, order_key = string.match(created, '^(%d+) (.*)$')
  end
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
    local to = h.cancel == '1' and outcome.cancelled or outcome.usual
    local new = settled(h, outcome, to, attempt ~= '', created)
    count(j.lane.name, j.score and place(j.score) or RUNNING, -1)
    local uid = string.sub(progress, #h.text + 2, #h.text + 1 + UID)
    progress, new = rewritten(progress, h, new, attempt)
    if new.state >= FINAL then
      finish(j, new, progress, ARGV[a + 4], others[to.group])
      if order_key then
        pass_turn(j, new.state, j.lane.prefix .. order_key, uid)
      end
    else
      continue(j, new, progress)
    end
    answer(0, new, progress)
  end
end
if order then
  order.write(now)
end
write_all()
local lanes_gone = leave_lanes(emptied)
local gone = write_counts()
if forget and lanes_gone > 0 then
  drop_topics(gone)
end
write_ends()
write_lanes(ARGV[1], now)
return reply
