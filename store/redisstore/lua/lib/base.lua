-- Times, scores and names.
--
-- A bucket's entry is scored by when it next needs attention, with its state in the
-- fraction: ms + state/4. BASE shifts entries in flight (ready or running) below zero, so
-- their count and the expired ones among them are one look at the ZSET.
--
-- A lane is topic|letter|endpoint; the letter is that of its priority (job.Lane). Lanes of a
-- topic sort by priority.
local BASE = 10000000000000

-- Functions reach these locals in fewer steps than globals.
local ARGV, KEYS, redis, string, tonumber, unpack = ARGV, KEYS, redis, string, tonumber, unpack

local micros = 0 -- of the second: as good as a random number
local function now_ms()
  local t = redis.call('TIME')
  micros = tonumber(t[2])
  return t[1] * 1000 + math.floor(micros / 1000)
end

-- text is a whole number as text. Jobs of a batch share it: Lua would write a fraction
-- for each.
local texts = {}
local function text(n)
  local t = texts[n]
  if not t then
    t = string.format('%d', n)
    texts[n] = t
  end
  return t
end

-- progress_field is the field of the progress of topic/id.
local PROGRESS = '+'
local function progress_field(name)
  return name .. PROGRESS
end

-- place splits a score into the state and the time.
local function place(score)
  local ms = math.floor(score)
  local state = (score - ms) * 4
  if ms < 0 then
    ms = ms + BASE
  end
  return state, ms
end

-- state_of is the state in a score of a bucket as Redis writes it. The last letters say it
-- mostly, which saves reading the number.
local POINT, MINUS = string.byte('.-', 1, 2)
local function state_of(score)
  local third, second = string.byte(score, -3, -2)
  if second == POINT then
    return READY
  elseif third ~= POINT then
    return WAITING
  elseif string.byte(score) == MINUS then
    return RUNNING
  end
  return (place(tonumber(score)))
end

-- stamp is the score of a time and two bits, as text that entries share.
local stamps = {}
local function stamp(ms, bits)
  local key = ms * 4 + bits
  local written = stamps[key]
  if not written then
    written = string.format(bits == 0 and '%d' or '%.2f', key / 4)
    stamps[key] = written
  end
  return written
end

-- score is that of an entry in a bucket.
local function score(state, ms)
  return stamp(state >= READY and ms - BASE or ms, state)
end

-- has_priority reports whether a lane has another than the default priority.
local function has_priority(lane)
  return string.find(lane, '|M|', 1, true) == nil
end

-- ordered reports whether the jobs of a lane have order keys.
local function ordered(lane)
  return string.find(lane, ORDERED) ~= nil
end

-- is_pulled reports whether a lane is a part of a pull queue.
local function is_pulled(lane)
  return string.sub(lane, -#PULLED) == PULLED
end

-- plain_of is the lane of the same topic and endpoint with the default priority.
local function plain_of(lane)
  return (string.gsub(lane, '|%a|', '|M|', 1))
end

local function topic_of(lane)
  return string.match(lane, '^[^|]*')
end

local endpoints = {}
local function endpoint_of(lane)
  local endpoint = endpoints[lane]
  if not endpoint then
    endpoint = string.match(lane, '[^|]*$')
    endpoints[lane] = endpoint
  end
  return endpoint
end
