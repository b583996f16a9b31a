-- run_id is an id of the server since it was started; '' without leave for INFO.
local function run_id()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end

-- lacks_none reports whether the shard is whole; see swap.lua. key has the note.
local function lacks_none(key)
  return redis.call('GET', key) == run_id()
end
