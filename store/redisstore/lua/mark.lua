-- Writes something, so that there is something to wait for.
-- KEYS mark
return redis.call('SET', KEYS[1], '')
