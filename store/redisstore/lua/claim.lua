-- Claims jobs that are due and not leased. Run again with the same nonce it
-- gives the same answer.
-- KEYS lanes counts out held topics places, then of each lane: bucket
-- ARGV nonce lease margin channel, then for each job no more than what batch needs
-- Returns now, then for each claimed job: its number (from 1), the state that
--   it was claimed from, the head of its progress, its registration.
local lanes, counts, out, held, topics, places = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local nonce, lease, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local reply = { now }

-- A job may have been hinted at twice; it is claimed once.
local seen = {}

local function answer(n, j, from, head)
  seen[j.name] = true
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4] = n, from, head, registrations[j.name]
end

local jobs = batch(6, 1, 4, 3, true)
read_scores(jobs)
local limits, gave_back = {}, false
if redis.call('EXISTS', topics) == 1 then
  local lanes_of_jobs = {}
  for _, j in ipairs(jobs) do
    lanes_of_jobs[j.lane.name] = j.lane.name
  end
  limits = limits_of(topics, lanes_of_jobs)
end

-- give_back puts a job that was carried where it was before.
local function give_back(j, h)
  local next = number(h[NEXT], h[DUE])
  local wake = h[CREATED] + math.min(next, number(h[EXPIRES], next))
  write('ZADD', j.lane.bucket, score(h[STATE], wake), j.id)
  j.score = nil
  count(j.lane.name, READY, -1)
  count(j.lane.name, h[STATE], 1)
  gave_back = true
end

for n, j in ipairs(jobs) do
  local registration, progress = registrations[j.name], progresses[j.name]
  local h = not seen[j.name] and j.score and parse(registration, progress)
  if h then -- one spoiled record must not fail the others
    local state, deadline = place(j.score)
    if state == RUNNING and deadline > now then
      -- The nonce is kept with the state that the job was claimed from.
      local by, from = string.match(h[NONCE], '^(.*):(%d)$')
      if by == nonce then
        answer(n, j, tonumber(from), render(h))
      end
    elseif limits[j.lane.topic] and (limits[j.lane.topic].paused or state ~= READY) then
      -- What a limit keeps is not claimed.
      if state == READY and h[STATE] < READY then
        seen[j.name] = true
        give_back(j, h)
      end
    elseif state == READY or deadline <= now then
      local from = state
      if h[STATE] == RUNNING then
        from = RUNNING
        local others, lapses = string.match(h[TRIES], '^(.* )(%d*)$')
        h[TRIES] = others .. text(number(lapses, 0) + 1)
      end
      h[STATE], h[NONCE] = RUNNING, nonce .. ':' .. text(from)
      -- No less than the time: a job that was forgotten and registered anew
      -- must not give out a token that an old worker still holds.
      h[TOKEN], h[VERSION] = text(math.max(number(h[TOKEN], 0) + 1, now)), text(number(h[VERSION], 1) + 1)
      local till = now + lease
      if h[TIMEOUT] ~= '' then
        till = now + h[TIMEOUT] + margin
      end
      local head = render(h)
      write_progress(j, head .. '\n' .. (progress and string.sub(progress, h[BODY]) or uid_of(h, registration)))
      write('ZADD', j.lane.bucket, score(RUNNING, till), j.id)
      look_at(j.lane.name, till)
      count(j.lane.name, state, -1)
      count(j.lane.name, RUNNING, 1)
      answer(n, j, from, head)
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
