-- Claims jobs that are due and not leased. Run again with the same nonce it
-- gives the same answer.
-- KEYS lanes counts out, then of each lane: bucket
-- ARGV nonce lease margin, then for each job no more than what batch needs
-- Returns now, then for each claimed job: its number (from 1), the state that
--   it was claimed from, its head and body (without the log).
local lanes, counts, out = KEYS[1], KEYS[2], KEYS[3]
local nonce, lease, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local reply = { now }

-- A job may have been hinted at twice; it is claimed once.
local seen = {}

local function answer(n, j, from, h, rec)
  seen[j.name] = true
  if h[SPEC] ~= '' then
    rec = string.sub(rec, 1, string.find(rec, '\n', 1, true) + 16 + h[SPEC])
  end
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3] = n, from, rec
end

local jobs = batch(3, 1, 3, 3)
read_scores(jobs)
for n, j in ipairs(jobs) do
  local rec = not seen[j.name] and j.score and records[j.name]
  local h = rec and parse(rec)
  if h then -- one spoiled record must not fail the others
    local state, deadline = place(j.score)
    if state == RUNNING and deadline > now then
      -- The nonce is kept with the state that the job was claimed from.
      local by, from = string.match(h[NONCE], '^(.*):(%d)$')
      if by == nonce then
        answer(n, j, tonumber(from), h, rec)
      end
    elseif state == READY or deadline <= now then
      local from = state
      if h[STATE] == RUNNING then
        from = RUNNING
        local others, lapses = string.match(h[TRIES], '^(.* )(%d*)$')
        h[TRIES] = others .. number(lapses, 0) + 1
      end
      h[STATE], h[NONCE] = RUNNING, nonce .. ':' .. from
      -- No less than the time: a job that was forgotten and registered anew
      -- must not give out a token that an old worker still holds.
      h[TOKEN], h[VERSION] = math.max(number(h[TOKEN], 0) + 1, now), number(h[VERSION], 1) + 1
      local till = now + lease
      if h[TIMEOUT] ~= '' then
        till = now + h[TIMEOUT] + margin
      end
      rec = render(h, string.sub(rec, h[BODY]))
      write_record(j, rec)
      write('ZADD', j.lane.bucket, score(RUNNING, till), j.id)
      look_at(j.lane.name, till)
      count(j.lane.name, state, -1)
      count(j.lane.name, RUNNING, 1)
      answer(n, j, from, h, rec)
    end
  end
end
write_all()
write_counts(counts, out)
write_lanes(lanes, nil, nil, now)
return reply
