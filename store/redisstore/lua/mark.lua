-- Writes something, which replicas confirm.
-- KEYS own
return redis.call('SET', KEYS[1], '')
