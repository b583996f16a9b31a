-- Reads at one instant what keeps a job from its next attempt.
-- KEYS page bucket lanes out held ready topics tokens counts
-- ARGV topic/id id lane topic
-- Returns now, jobs of the lane that go before it, jobs of the endpoint out, of the
--   lane out, hints on the ready list, then, each false if there is none: its
--   registration, its progress, its score in the bucket, when the lane next needs a look, the
--   endpoint's gate, the topic's limits, its next token, and how many of its
--   jobs are ready and how many running.
local page, bucket, lanes, out, held, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local name, id, lane = ARGV[1], ARGV[2], ARGV[3]
local endpoint = endpoint_of(lane)
local s = redis.call('ZSCORE', bucket, id)
local ahead = 0
if s and tonumber(s) >= 0 then
  ahead = redis.call('ZRANK', bucket, id) - redis.call('ZCOUNT', bucket, '-inf', '(0')
end
local record = redis.call('HMGET', page, name, progress_field(name))
return {
  now_ms(),
  ahead,
  tonumber(redis.call('HGET', out, endpoint) or 0),
  redis.call('ZCOUNT', bucket, '-inf', '(0'),
  redis.call('LLEN', ready),
  record[1],
  record[2],
  s,
  redis.call('ZSCORE', lanes, lane),
  redis.call('HGET', held, endpoint),
  redis.call('HGET', KEYS[7], ARGV[4]),
  redis.call('HGET', KEYS[8], ARGV[4]),
  redis.call('HGET', KEYS[9], ARGV[4] .. '|' .. READY),
  redis.call('HGET', KEYS[9], ARGV[4] .. '|' .. RUNNING),
}
