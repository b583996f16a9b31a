-- Claims jobs that are due and not leased. Run again with the same nonce it
-- gives the same answer.
-- KEYS lanes counts out, then for each job: job bucket
-- ARGV nonce lease margin, then for each job: id lane topic
-- Returns now, then for each claimed job: its number (from 1), the state that
--   it was claimed from, its head and body (without the log).
local lanes, counts, out = KEYS[1], KEYS[2], KEYS[3]
local nonce, lease, margin = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local reply = { now }

-- A job may have been hinted at twice; it is claimed once.
local seen = {}

local function answer(n, key, from, h, rest)
  seen[key] = true
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3] = n, from, render(h, string.sub(rest, 1, 16 + h.spec))
end

local n = 0
for k = 4, #KEYS, 2 do
  n = n + 1
  local a = 1 + 3 * n
  local id, lane, topic = ARGV[a], ARGV[a + 1], ARGV[a + 2]
  local rec = not seen[KEYS[k]] and redis.call('GET', KEYS[k])
  local s = rec and redis.call('ZSCORE', KEYS[k + 1], id)
  local h = s and parse(rec)
  if h then -- one spoiled record must not fail the others
    local state, deadline = place(tonumber(s))
    local rest = string.sub(rec, h.body)
    if state == RUNNING and deadline > now then
      -- The nonce is kept with the state that the job was claimed from.
      local by, from = string.match(h.nonce, '^(.*):(%d)$')
      if by == nonce then
        answer(n, KEYS[k], tonumber(from), h, rest)
      end
    elseif state == READY or deadline <= now then
      local from = state
      if h.state == RUNNING then
        from = RUNNING
        h.lapses = h.lapses + 1
      end
      h.state, h.nonce = RUNNING, nonce .. ':' .. from
      -- No less than the time: a job that was forgotten and registered anew
      -- must not give out a token that an old worker still holds.
      h.token, h.version = math.max(h.token + 1, now), h.version + 1
      local till = now + lease
      if h.timeout ~= '0' then
        till = now + h.timeout + margin
      end
      redis.call('SET', KEYS[k], render(h, rest))
      redis.call('ZADD', KEYS[k + 1], score(RUNNING, till), id)
      look_at(lane, till)
      count(topic, lane, state, -1)
      count(topic, lane, RUNNING, 1)
      answer(n, KEYS[k], from, h, rest)
    end
  end
end
write_counts(counts, out)
write_lanes(lanes, nil, nil, now)
return reply
