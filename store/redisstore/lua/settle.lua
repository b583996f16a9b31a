-- Writes down what came of claims, for those whose token is still current.
-- KEYS lanes counts out held, then of each lane: bucket dead ended
-- ARGV channel forget (1: keep no finished job) max_log reason_cancelled, then for each job:
--      token to delay if_cancelled attempts snoozes lapses reason attempt biz (number of its index, 0 for none)
-- Returns now, then for each job: 0 applied, 1 applied by an earlier run,
--   2 stale, 3 missing; and for 0 and 1 what stands there: state, next, ended, reason, version, uid.
local lanes, counts, out, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local forget, max_log, reason_cancelled = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4]
local now = now_ms()
local reply = { now }
local emptied = {}
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled

local function answer(status, h, rec)
  local i = #reply
  reply[i + 1] = status
  for n = 2, 4 do
    reply[i + n] = -1
  end
  reply[i + 2], reply[i + 5], reply[i + 6], reply[i + 7] = 0, '', 0, ''
  if h then
    reply[i + 2], reply[i + 5], reply[i + 6], reply[i + 7] = h.state, h.reason, tonumber(h.version), uid_of(h, rec)
    local ended = number(h.ended, -1)
    if ended >= 0 then
      reply[i + 4] = h.created + ended
    else
      reply[i + 3] = h.created + number(h.next, h.due)
    end
  end
end

-- logged is the record's rest with the attempt appended, and the oldest
-- dropped when there are too many.
local function logged(h, rest, attempt, next)
  if attempt == '' then
    return rest
  end
  local logs = number(h.logs, 0)
  if h.spec == '' then
    h.spec = #rest - 16
  elseif logs >= max_log then
    local start = 17 + h.spec
    local len, from = string.match(rest, '^%-?%d+ (%d+)\n()', start)
    rest = string.sub(rest, 1, start - 1) .. string.sub(rest, from + len)
    logs = logs - 1
  end
  h.logs = logs + 1
  return rest .. next .. ' ' .. #attempt .. '\n' .. attempt
end

-- finish stores a job that has ended.
local function finish(j, h, rest, attempt, biz)
  h.next, h.ended = -1, now - h.created
  write('ZREM', j.bucket, j.id)
  emptied[j.lane] = j.bucket
  if forget and h.state ~= DEAD then
    forget_record(j)
    if biz then
      write('ZREM', biz, j.name)
    end
    return
  end
  rest = logged(h, rest, attempt, 0)
  write_record(j, render(h, rest))
  write('ZADD', KEYS[j.keys + (h.state == DEAD and 2 or 3)], now + (h.state - FINAL) / 4, j.id)
  count(j.lane, h.state, 1)
end

-- continue stores one that goes on after a delay.
local function continue(j, h, rest, attempt, delay)
  h.next, h.ended = now + delay - h.created, ''
  local wake = math.min(h.next, number(h.expires, h.next))
  rest = logged(h, rest, attempt, h.created + h.next)
  write_record(j, render(h, rest))
  write('ZADD', j.bucket, score(h.state, h.created + wake), j.id)
  look_at(j.lane, h.created + wake)
  count(j.lane, h.state, 1)
end

local jobs, others = batch(4, 3, 4, 13)
read_scores(jobs)
for _, j in ipairs(jobs) do
  local a = j.args
  local rec = records[j.name]
  local h = rec and parse(rec)
  if not h then
    answer(3)
  elseif h.token ~= ARGV[a + 1] or h.state ~= RUNNING and h.nonce ~= SETTLED then
    answer(2)
  elseif h.state ~= RUNNING then
    answer(1, h, rec)
  else
    local to, reason, if_cancelled = tonumber(ARGV[a + 2]), ARGV[a + 8], tonumber(ARGV[a + 4])
    if h.cancel == '1' and if_cancelled ~= to then
      to, reason = if_cancelled, reason_cancelled
    end
    count(j.lane, j.score and place(j.score) or RUNNING, -1)
    h.state, h.reason, h.nonce, h.version = to, reason, SETTLED, number(h.version, 1) + 1
    h.attempts, h.snoozes, h.lapses = ARGV[a + 5], ARGV[a + 6], ARGV[a + 7]
    local rest = string.sub(rec, h.body)
    if to >= FINAL then
      finish(j, h, rest, ARGV[a + 9], ARGV[a + 10] ~= '0' and KEYS[others + ARGV[a + 10]])
    else
      continue(j, h, rest, ARGV[a + 9], ARGV[a + 3])
    end
    answer(0, h, rec)
  end
end
write_all()
for lane, bucket in pairs(emptied) do
  drop_lane(lanes, bucket, lane)
end
write_counts(counts, out)
write_lanes(lanes, held, ARGV[1], now)
return reply
