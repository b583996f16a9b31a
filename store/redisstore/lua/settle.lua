-- Writes down what came of claims, for those whose token is still current.
-- KEYS lanes counts out held, then for each job: job bucket dead ended biz
-- ARGV channel forget (1: keep no finished job) max_log, then for each job:
--      id lane topic member token to delay if_cancelled attempts snoozes lapses reason reason_cancelled attempt
-- Returns now, then for each job: 0 applied, 1 applied by an earlier run,
--   2 stale, 3 missing; and for 0 and 1 what stands there: state, next, ended, reason, version, uid.
local lanes, counts, out, held = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local forget, max_log = ARGV[2] == '1', tonumber(ARGV[3])
local now = now_ms()
local reply = { now }
local emptied = {}
local SETTLED = '+' -- in the nonce's place: the holder of the token has settled

local function answer(status, h, rec)
  local i = #reply
  reply[i + 1] = status
  reply[i + 2], reply[i + 3], reply[i + 4], reply[i + 5] = h.state or 0, h.next or -1, h.ended or -1, h.reason or '-'
  reply[i + 6] = tonumber(h.version or 0)
  reply[i + 7] = rec and string.sub(rec, h.body, h.body + 15) or ''
  if reply[i + 3] ~= -1 then
    reply[i + 3] = h.created + reply[i + 3]
  end
  if reply[i + 4] ~= -1 then
    reply[i + 4] = h.created + reply[i + 4]
  end
end

-- logged is the record's rest with the attempt appended, and the oldest
-- dropped when there are too many.
local function logged(h, rest, attempt, next)
  if attempt == '' then
    return rest
  end
  local log = string.sub(rest, 17 + h.spec)
  if tonumber(h.logs) >= max_log then
    local len, from = string.match(log, '^%-?%d+ (%d+)\n()')
    log = string.sub(log, from + len)
  else
    h.logs = h.logs + 1
  end
  return string.sub(rest, 1, 16 + h.spec) .. log .. next .. ' ' .. #attempt .. '\n' .. attempt
end

local a = 4
for k = 5, #KEYS, 5 do
  local job, bucket = KEYS[k], KEYS[k + 1]
  local id, lane, topic, member, token = ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  local rec = redis.call('GET', job)
  local h = rec and parse(rec)
  if not h then
    answer(3, {})
  elseif h.token ~= token then
    answer(2, {})
  elseif h.state ~= RUNNING and h.nonce ~= SETTLED then
    answer(2, {})
  elseif h.state ~= RUNNING then
    h.next, h.ended = tonumber(h.next), tonumber(h.ended)
    answer(1, h, rec)
  else
    local to, reason = tonumber(ARGV[a + 5]), ARGV[a + 11]
    local if_cancelled = tonumber(ARGV[a + 7])
    if h.cancel == '1' and if_cancelled ~= to then
      to, reason = if_cancelled, ARGV[a + 12]
    end
    local from = RUNNING
    local s = redis.call('ZSCORE', bucket, id)
    if s then
      from = place(tonumber(s))
    end
    count(topic, lane, from, -1)
    h.state, h.reason, h.nonce = to, reason, SETTLED
    h.version = h.version + 1
    h.attempts, h.snoozes, h.lapses = ARGV[a + 8], ARGV[a + 9], ARGV[a + 10]
    local rest = string.sub(rec, h.body)
    if to >= FINAL then
      h.next, h.ended = -1, now - h.created
      redis.call('ZREM', bucket, id)
      emptied[lane] = bucket
      if forget and to ~= DEAD then
        redis.call('DEL', job)
        if member ~= '' then
          redis.call('ZREM', KEYS[k + 4], member)
        end
      else
        redis.call('SET', job, render(h, logged(h, rest, ARGV[a + 13], 0)))
        redis.call('ZADD', to == DEAD and KEYS[k + 2] or KEYS[k + 3], now + (to - FINAL) / 4, id)
        count(topic, lane, to, 1)
      end
    else
      h.next, h.ended = now + ARGV[a + 6] - h.created, -1
      local wake, expires = h.next, tonumber(h.expires)
      if expires >= 0 and expires < wake then
        wake = expires
      end
      local record = logged(h, rest, ARGV[a + 13], h.created + h.next)
      redis.call('SET', job, render(h, record))
      redis.call('ZADD', bucket, score(to, h.created + wake), id)
      look_at(lane, h.created + wake)
      count(topic, lane, to, 1)
    end
    answer(0, h, rec)
  end
  k, a = k + 5, a + 14
end
for lane, bucket in pairs(emptied) do
  drop_lane(lanes, bucket, lane)
end
write_counts(counts, out)
write_lanes(lanes, held, ARGV[1], now)
return reply
