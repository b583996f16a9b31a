-- Claims jobs that are due and not leased. Run again with the same nonce it
-- gives the same answer.
-- KEYS lanes counts out held topics places, then of each lane: bucket
-- ARGV nonce lease margin channel, then for each job no more than what batch needs
-- Returns now, the heads of claimed jobs, then for each of these its number (from 1),
--   the state that it was claimed from, the number of its head, its registration.
local lanes, counts, out, held, topics, places = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local nonce, lease, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local answered = {} -- heads
local reply = { now, answered }

-- A job may have been hinted at twice; it is claimed once.
local seen = {}

local numbers = {}
local function answer(n, j, from, h)
  seen[j.field] = true
  local head = numbers[h]
  if not head then
    head = #answered + 1
    numbers[h], answered[head] = head, h.text
  end
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4] = n, from, head, registrations[j.field]
end

-- claimed is the head of jobs with the head h that are claimed from a state.
local successors = {}
local function claimed(h, from)
  local of = successors[h] or {}
  successors[h] = of
  if not of[from] then
    local tries = h.tries
    if h.state == RUNNING then
      local others, lapses = string.match(tries, '^(.* )(%d*)$')
      tries = others .. text(number(lapses, 0) + 1)
    end
    of[from] = changed(h, {
      -- The nonce is kept with the state that the job was claimed from.
      state = RUNNING, tries = tries, nonce = nonce .. ':' .. text(from), version = text(number(h.version, 1) + 1),
      -- No less than the time: a job that was forgotten and registered anew
      -- must not give out a token that an old worker still holds.
      token = text(math.max(number(h.token, 0) + 1, now)),
    })
  end
  return of[from]
end

local jobs = batch(6, 1, 4, 3, true)
read_scores(jobs)
local limits, gave_back = {}, false
if redis.call('EXISTS', topics) == 1 then
  limits = limits_of_jobs(topics, jobs)
end

-- give_back puts a job that was carried where it was before.
local function give_back(j, h)
  local created, due = string.match(registrations[j.field], '^(%d+) (%-?%d+)')
  local next = number(h.next, created + due)
  write('ZADD', j.lane.bucket, score(h.state, math.min(next, number(h.expires, next))), j.id)
  j.score = nil
  count(j.lane.name, READY, -1)
  count(j.lane.name, h.state, 1)
  gave_back = true
end

for n, j in ipairs(jobs) do
  local registration, progress = registrations[j.field], progresses[j.field]
  local h, uid, timeout
  if not seen[j.field] and j.score then
    h, uid, timeout = parse(registration, progress)
  end
  if h then -- one spoiled record must not fail the others
    local state, deadline = place(j.score)
    if state == RUNNING and deadline > now then
      local by, from = string.match(h.nonce, '^(.*):(%d)$')
      if by == nonce then
        answer(n, j, tonumber(from), h)
      end
    elseif limits[j.lane.topic] and (limits[j.lane.topic].paused or state ~= READY) then
      -- What a limit keeps is not claimed.
      if state == READY and h.state < READY then
        seen[j.field] = true
        give_back(j, h)
      end
    elseif state == READY or deadline <= now then
      local from = h.state == RUNNING and RUNNING or state
      local till = now + (timeout and timeout + margin or lease)
      local new = claimed(h, from)
      write_progress(j, new.text .. '\n' .. (progress and string.sub(progress, #h.text + 2) or uid))
      write('ZADD', j.lane.bucket, score(RUNNING, till), j.id)
      look_at(j.lane.name, till)
      count(j.lane.name, state, -1)
      count(j.lane.name, RUNNING, 1)
      answer(n, j, from, new)
    end
  end
end
write_all()
write_counts(counts, out)
if gave_back then
  write_lanes(lanes, held, places, ARGV[4], now)
else
  write_lanes(lanes, nil, nil, nil, now)
end
return reply
