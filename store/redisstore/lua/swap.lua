-- Leaves a text, and returns the one before if it was left at this server since it was
-- started. Without leave for INFO all servers seem to be the same. If that is the text of a
-- shard that lacks no job, the shard is whole from now on, otherwise it is not.
-- KEYS text's own, note's own
-- ARGV text, text of a whole shard ('': none is)
local run = run_id()
local had = redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. run, 'GET')
had = had and string.match(had, '^(.*) ' .. run .. '$') or ''
if ARGV[2] ~= '' and had == ARGV[2] then
  redis.call('SET', KEYS[2], run)
else
  redis.call('DEL', KEYS[2])
end
return had
