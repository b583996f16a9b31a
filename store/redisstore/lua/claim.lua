-- Claims jobs that are due and not leased. Run again with the same nonce it returns the
-- same claims.
-- KEYS own, then of each lane: bucket
-- ARGV nonce lease margin channel await_whole (1: jobs with order keys are claimed in a whole
--      shard only), then for each job nothing more
-- Returns now, the heads of claimed jobs, the numbers (from 1) of jobs that are for another
--   call, the number of each claimed job whose order key had another one before and the uid and
--   id of that (lasts), then for each claimed job: its number, the state that it was claimed
--   from, the number of its head, its registration.
local nonce, lease, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local answered = {} -- heads
local left = {}
local lasts_of = {}
local reply = { now, answered, left, lasts_of }

-- A job that two hints name is claimed once.
local seen = {}

local ORDER_KEY = '^[^\n]* ([^ \n]+)\n'

local order = nil -- the functions of lib/turns.lua
local function key_of(j)
  local key = string.match(stored[j.name] or '', ORDER_KEY)
  return key and j.lane.prefix .. key
end

local numbers = {}
local function answer(n, j, from, h)
  seen[j.field] = true
  if j.lane.ordered then
    order = order or open_turns()
    local key = key_of(j)
    local last = key and order.last(key)
    if last then
      lasts_of[#lasts_of + 1], lasts_of[#lasts_of + 2] = n, last
    end
  end
  local head = numbers[h]
  if not head then
    head = #answered + 1
    numbers[h], answered[head] = head, h.text
  end
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4] = n, from, head, stored[j.name]
end

-- claimed_before is the state from which an earlier run with the same nonce claimed a job, or
-- nil. Nobody else has had it since, even if its lease has expired.
local function claimed_before(h)
  local by, from = string.match(h.nonce, '^(.*):(%d)$')
  return by == nonce and tonumber(from) or nil
end

-- tries_after_expiry counts an expired lease without an outcome. Those of a suspect are
-- counted when it is sent.
local function tries_after_expiry(tries)
  local others, expired = string.match(tries, '^(.* )(%d*)$')
  expired = number(expired, 0)
  return expired < SUSPECT_AFTER and others .. text(expired + 1) or tries
end

-- claimed is the head of jobs with the head h that are claimed from a state.
local successors = {}
local function claimed(h, from, lease_expired)
  local of = successors[h] or {}
  successors[h] = of
  if not of[from] then
    local tries = lease_expired and tries_after_expiry(h.tries) or h.tries
    of[from] = changed(h, {
      -- The nonce is kept with the state that the job was claimed from.
      state = RUNNING, tries = tries, nonce = nonce .. ':' .. text(from), version = text(number(h.version, 1) + 1),
      -- At least the time: a job that was forgotten and registered anew must never
      -- reuse a token.
      token = text(math.max(number(h.token, 0) + 1, now)),
    })
  end
  return of[from]
end

local jobs = batch(5, 1, 3, true)
read_scores(jobs)
local gave_back = false
if redis.call('EXISTS', topics) == 1 then
  limits = limits_of_jobs(topics, jobs)
end

-- give_back undoes the carrying of a job that had a state in its bucket. Further is how much
-- later it is due.
local function give_back(j, h, state, further)
  local created, due = string.match(stored[j.name], '^(%d+) (%-?%d+)')
  local next = number(h.next, created + due)
  write('ZADD', j.lane.bucket, score(h.state, math.min(next, number(h.expires, next)) + further), j.id)
  j.score = nil
  count(j.lane.name, state, -1)
  count(j.lane.name, h.state, 1)
  gave_back = true
end

-- held reports whether jobs with order keys are not claimed now: an older one of a key may be lost.
local holds = nil
local function held()
  if holds == nil then
    holds = ARGV[5] == '1' and not lacks_none(whole)
  end
  return holds
end

-- has_turn reports whether a job is the head of its order key, and takes its turn.
local prefetched = false
local function has_turn(j)
  order = order or open_turns()
  if not prefetched then
    prefetched = true
    local keys = {}
    for _, other in ipairs(jobs) do
      keys[#keys + 1] = other.lane.ordered and key_of(other) or nil
    end
    order.prefetch(keys)
  end
  local key = key_of(j)
  return key and order.claim(key, j.lane.name .. '|' .. j.id)
end

for n, j in ipairs(jobs) do
  local registration, progress = stored[j.name], stored[j.field]
  local h, uid, timeout
  if progress == nil then
    left[#left + 1] = j.score and n or nil
  elseif not seen[j.field] and j.score then
    h, uid, timeout = parse(registration, progress)
  end
  if h then -- one spoiled record must not fail the others
    local state, deadline = place(j.score)
    local before = h.state == RUNNING and claimed_before(h)
    if state == RUNNING and deadline > now then
      if before then
        answer(n, j, before, h)
      end
    elseif limits[j.lane.topic] and (limits[j.lane.topic].Paused or state ~= READY) then
      -- What a limit keeps is not claimed.
      if state == READY and h.state < READY then
        seen[j.field] = true
        give_back(j, h, READY, 0)
      end
    elseif j.lane.ordered and held() then
      if state == READY and h.state < READY then
        seen[j.field] = true
        give_back(j, h, READY, 0)
        look_at(j.lane.name, now)
      end
    elseif (state == READY or deadline <= now) and j.lane.ordered and not has_turn(j) then
      if h.state < READY then
        seen[j.field] = true
        give_back(j, h, state, PARK)
      end
    elseif state == READY or deadline <= now then
      local lease_expired = h.state == RUNNING and not before
      local from = before or lease_expired and RUNNING or state
      local till = now + (timeout and timeout + margin or lease)
      local new = claimed(h, from, lease_expired)
      write_part(j, j.field, new.text .. '\n' .. (progress and string.sub(progress, #h.text + 2) or uid))
      write('ZADD', j.lane.bucket, score(RUNNING, till), j.id)
      look_at(j.lane.name, till)
      count(j.lane.name, state, -1)
      count(j.lane.name, RUNNING, 1)
      answer(n, j, from, new)
    end
  end
end
if order then
  order.write(now)
end
write_all()
write_counts(counts, busy)
if gave_back then
  write_lanes(lanes, circuits, places, ARGV[4], now)
else
  write_lanes(lanes, nil, nil, nil, now)
end
return reply
