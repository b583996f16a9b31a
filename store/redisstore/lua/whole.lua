-- KEYS note of swap.lua
-- Returns 1 if the shard is whole.
return lacks_none(KEYS[1]) and 1 or 0
