-- Claims jobs that are due and not leased. Run again with the same nonce it returns the
-- same claims.
-- KEYS own, then of each lane: bucket
-- ARGV nonce lease margin channel, then for each job nothing more
-- Returns now, the numbers (from 1) of jobs that are for another call, then lists of claimed jobs
--   with the same head: the head, the state that they were claimed from, the token of the claim
--   before if their leases expired, then number and registration of each.
local nonce, lease, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local left = {}
local reply = { now, left }

-- Two hints may name the same job: it is claimed once.
local SEEN = 0 -- in the place of its progress

local order = nil -- the functions of lib/turns.lua, with order keys only

local answers = {} -- by head, which says from which state its jobs were claimed
local function answer(n, j, from, h, registration, expired)
  stored[j.field] = SEEN
  local jobs = answers[h]
  if not jobs then
    jobs = { h.text, from, expired }
    answers[h], reply[#reply + 1] = jobs, jobs
  end
  local i = #jobs
  jobs[i + 1], jobs[i + 2] = n, registration
end

-- claimed_before is the state from which an earlier run with the same nonce claimed a job, and
-- the token of an expired lease before, if any; or nil. No other call has claimed it since, even
-- if its lease has expired.
local function claimed_before(h)
  local by, from, expired = string.match(h.nonce, '^(.*):(%d)(%d*)$')
  if by == nonce then
    return tonumber(from), expired
  end
end

-- tries_after_expiry counts an expired lease without an outcome. Those of a suspect are
-- counted when it is sent.
local function tries_after_expiry(tries)
  local others, expired = string.match(tries, '^(.* )(%d*)$')
  expired = number(expired, 0)
  return expired < SUSPECT_AFTER and others .. text(expired + 1) or tries
end

-- claimed is the head of jobs with the head h that are claimed from a state. expired is the token
-- of an expired lease, or empty.
local successors = {}
local function claimed(h, from, lease_expired, expired)
  local of = successors[h] or {}
  successors[h] = of
  if not of[from] then
    local tries = lease_expired and tries_after_expiry(h.tries) or h.tries
    of[from] = changed(h, {
      -- The nonce is kept with the state that the job was claimed from, and the expired lease.
      state = RUNNING, tries = tries, nonce = nonce .. ':' .. text(from) .. expired, version = text(number(h.version, 1) + 1),
      updated = text(now),
      -- At least the time: a job that was forgotten and registered anew must never
      -- reuse a token.
      token = text(math.max(number(h.token, 0) + 1, now)),
    })
  end
  return of[from]
end

local jobs = batch(4, 1, 3, true)
read_scores(jobs)
local order_keys = {}
for _, j in ipairs(jobs) do
  local key = j.lane.ordered and string.match(stored[j.name] or '', '^[^\n]* ([^ \n]+)\n')
  if key then
    j.order_key = j.lane.prefix .. key
    order_keys[#order_keys + 1] = j.order_key
  end
end
if #order_keys > 0 then
  order = open_turns()
  order.prefetch(order_keys)
end

-- is_free reports whether nothing keeps due jobs of a lane from being claimed.
local function is_free(lane)
  if lane.free == nil then
    lane.free = not lane.ordered and not limits_of(lane.topic)
  end
  return lane.free
end

-- delay is how much later a due job is due that is not claimed; nil for one that is. It takes
-- the turn of its order key.
local function delay(j, state)
  local of = limits_of(j.lane.topic)
  if of and (is_paused(of, now) or state ~= READY) then
    return 0
  elseif j.lane.ordered and not (j.order_key and order.claim(j.order_key, j.lane.name .. '|' .. j.id)) then
    return PARK
  end
end

-- give_back undoes the carrying of a job that had a state in its bucket.
local gave_back = false
local function give_back(j, h, state, further)
  local created, due = string.match(stored[j.name], '^(%d+) (%-?%d+)')
  local next = number(h.next, created + due)
  write('ZADD', j.lane.bucket, score(h.state, math.min(next, number(h.expires, next)) + further), j.id)
  move(j.lane.counts, state, h.state)
  stored[j.field], gave_back = SEEN, true
end

-- lease_till has the entry of a job end with its lease.
local entries = {} -- scores by time
local function lease_till(j, till)
  local lane = j.lane
  local entry = entries[till]
  if not entry then
    entry = score(RUNNING, till)
    entries[till] = entry
  end
  write('ZADD', lane.bucket, entry, j.id)
  if not lane.till or till < lane.till then
    lane.till = till
    look_at(lane.name, till, true)
  end
end

-- ends is when the entry of a job in a bucket needs attention.
local function ends(j)
  local _, ms = place(tonumber(j.score))
  return ms
end

for n = 1, #jobs do
  local j = jobs[n]
  local registration, progress = stored[j.name], stored[j.field]
  local h, uid, timeout
  if progress == nil then
    left[#left + 1] = j.score and n or nil
  elseif progress ~= SEEN and j.score then
    h, uid, timeout = parse(registration, progress)
  end
  if h then -- one spoiled record must not fail the others
    local state = state_of(j.score)
    local before, expired
    if h.state == RUNNING then
      before, expired = claimed_before(h)
    end
    local is_due = state == READY or ends(j) <= now
    local further = is_due and not is_free(j.lane) and delay(j, state) or nil
    if is_due and not further then
      local lease_expired = h.state == RUNNING and not before
      local from = before or lease_expired and RUNNING or state
      local till = now + (timeout and timeout + margin or lease)
      expired = lease_expired and h.token or expired or ''
      local new = claimed(h, from, lease_expired, expired)
      write('HSET', j.page, j.field, new.text .. '\n' .. (progress and string.sub(progress, #h.text + 2) or uid))
      lease_till(j, till)
      move(j.lane.counts, state, RUNNING)
      answer(n, j, from, new, registration, expired)
    elseif is_due and h.state < READY and (state == READY or further == PARK) then
      give_back(j, h, state, further)
    elseif before and not is_due then
      answer(n, j, before, h, registration, expired)
    end
  end
end
if order then
  order.write(now)
end
write_all()
write_counts()
write_lanes((gave_back or redis.call('EXISTS', places) == 1) and ARGV[4], now)
return reply
