-- Leaves a text, and returns the one before if it was left at this server since it was
-- started. Without leave for INFO all servers seem to be the same.
-- KEYS own
-- ARGV text ('': only to have something written)
local info = ARGV[1] ~= '' and redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local had = redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. run, 'GET')
return had and string.match(had, '^(.*) ' .. run .. '$') or ''
