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

local function answer(n, j, from, h, rest)
  seen[j.name] = true
  if h.spec ~= '' then
    rest = string.sub(rest, 1, 16 + h.spec)
  end
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3] = n, from, render(h, rest)
end

local jobs = batch(3, 1, 3, 3)
read_scores(jobs)
for n, j in ipairs(jobs) do
  local rec = not seen[j.name] and j.score and records[j.name]
  local h = rec and parse(rec)
  if h then -- one spoiled record must not fail the others
    local state, deadline = place(j.score)
    local rest = string.sub(rec, h.body)
    if state == RUNNING and deadline > now then
      -- The nonce is kept with the state that the job was claimed from.
      local by, from = string.match(h.nonce, '^(.*):(%d)$')
      if by == nonce then
        answer(n, j, tonumber(from), h, rest)
      end
    elseif state == READY or deadline <= now then
      local from = state
      if h.state == RUNNING then
        from = RUNNING
        h.lapses = number(h.lapses, 0) + 1
      end
      h.state, h.nonce = RUNNING, nonce .. ':' .. from
      -- No less than the time: a job that was forgotten and registered anew
      -- must not give out a token that an old worker still holds.
      h.token, h.version = math.max(number(h.token, 0) + 1, now), number(h.version, 1) + 1
      local till = now + lease
      if h.timeout ~= '' then
        till = now + h.timeout + margin
      end
      write_record(j, render(h, rest))
      write('ZADD', j.bucket, score(RUNNING, till), j.id)
      look_at(j.lane, till)
      count(j.lane, state, -1)
      count(j.lane, RUNNING, 1)
      answer(n, j, from, h, rest)
    end
  end
end
write_all()
write_counts(counts, out)
write_lanes(lanes, nil, nil, now)
return reply
