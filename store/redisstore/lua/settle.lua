-- Writes the outcomes of claims whose token is still current. Go decides on jobs that were
-- changed since they were claimed (successors.go).
-- KEYS own, then of each lane: bucket, ended
-- ARGV channel forget (1: keep no ended job) max_log max_bytes (of a log), the number of
--      outcomes, which jobs share: token, tries (attempts snoozes expired leases), state, delay
--      (or a time below zero), reason, group of dead letters (its number, 0 for none); then for
--      each job: outcome (its number, from 1) attempt, created ("<created> <order key>" with
--      one), names (numbers of its indexes, 0 for none)
-- Returns now, then for each job its new version and its uid; -1 for the version of a job on
--   which Go decides, -2 for one whose lease cannot be extended, 0 for one that is for another call.
local forget, max_log, max_bytes = ARGV[2] == '1', tonumber(ARGV[3]), tonumber(ARGV[4])
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled
local now = now_ms()
local reply = { now }
local emptied = {}
check_types()

local function answer(n, version, uid)
  reply[2 * n], reply[2 * n + 1] = version, uid or ''
end

-- settled is the head that an outcome gives to jobs with the head h at an instant. Some have an
-- attempt for the log.
local function settled(h, outcome, at, logged)
  local successors = outcome.successors[h] or {}
  outcome.successors[h] = successors
  local key = logged and at or -at
  local new = successors[key]
  if not new then
    local final, delay = outcome.state >= FINAL, outcome.delay
    new = changed(h, {
      state = outcome.state, tries = outcome.tries, reason = outcome.reason, nonce = SETTLED, version = text(number(h.version, 1) + 1),
      updated = text(at),
      next = final and '' or text(delay < 0 and -delay or now + delay), ended = final and text(at) or '',
      logs = logged and text(math.min(number(h.logs, 0) + 1, max_log)) or h.logs,
    })
    new.number, new.until_next = tonumber(new.version), (final and '0' or new.next) .. ' ' -- for the attempt's log
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
  local kept, from = h.logs == '' and 0 or tonumber(h.logs), UID + 1
  while kept >= max_log or kept > 0 and #rest + 1 - from + #attempt > max_bytes do
    local len, behind = string.match(rest, '^%d+ (%d+)\n()', from)
    if not len then
      break -- unreadable, as readers will see
    end
    kept, from = kept - 1, behind + len
  end
  if from > UID + 1 then
    rest = string.sub(rest, 1, UID) .. string.sub(rest, from)
    local logs = text(kept + 1)
    new = logs == new.logs and new or changed(new, { logs = logs })
  end
  return new.text .. '\n' .. rest .. new.until_next .. text(#attempt) .. '\n' .. attempt, new
end

local OWN_ARGS, PER_OUTCOME = 5, 6
local outcomes, last = {}, OWN_ARGS + PER_OUTCOME * ARGV[OWN_ARGS]
for n = 1, tonumber(ARGV[OWN_ARGS]) do
  local a = OWN_ARGS + PER_OUTCOME * (n - 1)
  outcomes[text(n)] = {
    token = ARGV[a + 1], tries = ARGV[a + 2], state = tonumber(ARGV[a + 3]), delay = tonumber(ARGV[a + 4]), reason = ARGV[a + 5],
    group = ARGV[a + 6], successors = {},
  }
end

local jobs, others = batch(last, 2, 7)
read_scores(jobs)

-- pass_turn has the next job of an order key go, unless the dead letter stops the key.
local order = nil -- the functions of lib/turns.lua
local function pass_turn(j, state, key)
  if state ~= DEAD or not stops_on_dead(j.lane.topic) then
    order = order or open_turns()
    order.leave(key, string.rep('0', TURN) .. j.lane.name .. '|' .. j.id)
  end
end

-- extend gives a claim with a current token a new end.
local function extend(n, j, h, progress, outcome)
  if not h or h.token ~= outcome.token or h.state ~= RUNNING or not j.score then
    return answer(n, -2)
  end
  local till = now + outcome.delay
  write('ZADD', j.lane.bucket, score(RUNNING, till), j.id)
  look_at(j.lane.name, till, true)
  move(j.lane.counts, state_of(j.score), RUNNING)
  answer(n, tonumber(h.version), uid_of(h, progress))
end

for n = 1, #jobs do
  local j = jobs[n]
  local a, lane, progress = j.args, j.lane, stored[j.field]
  local outcome, attempt, created = outcomes[ARGV[a + 1]], ARGV[a + 2], ARGV[a + 3]
  local order_key
  if lane.ordered then
    created, order_key = string.match(created, '^(%d+) (.*)$')
  end
  local h = progress and head_of(progress)
  if progress == nil then
    answer(n, 0)
  elseif outcome.state == RUNNING then
    extend(n, j, h, progress, outcome)
  elseif not h or h.token ~= outcome.token or h.state ~= RUNNING or h.cancel ~= '' then
    answer(n, -1)
  else
    local uid, state = uid_of(h, progress), outcome.state
    -- A job registered later than now, in the place of another, ends then.
    local at = state >= FINAL and math.max(tonumber(created), now) or now
    local new = settled(h, outcome, at, attempt ~= '')
    progress, new = rewritten(progress, h, new, attempt)
    count(lane.counts, j.score and state_of(j.score) or RUNNING, -1)
    if state < FINAL then
      local next = tonumber(new.next)
      write_part(j, j.field, progress)
      enter(j, lane.bucket, state, math.min(next, number(h.expires, next)))
    else
      write('ZREM', lane.bucket, j.id)
      emptied[lane.bucket] = lane
      if forget and state ~= DEAD then
        forget_part(j, name_of(j))
        forget_part(j, j.field)
        unindex_job(j, ARGV[a + 4], '')
      else
        write_part(j, j.field, progress)
        enter(j, others[outcome.group] or lane.ended, state, at)
      end
      if order_key then
        pass_turn(j, state, lane.prefix .. order_key)
      end
    end
    answer(n, new.number, uid)
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
