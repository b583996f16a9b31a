-- Reports a key that has another type than its shard's. Redis refuses the script as it would
-- refuse a registration: when its memory or its disk is full, or while it follows another server.
-- KEYS own, then the pages of records
-- ARGV the type of each key
-- Returns nothing, or the key and its type
for n, key in ipairs(KEYS) do
  local is = redis.call('TYPE', key).ok
  if is ~= 'none' and is ~= ARGV[n] then
    return { key, is }
  end
end
return {}
