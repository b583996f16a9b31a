-- Batches of jobs. A call names each key once; jobs refer to lanes, pages and indexes by number:
-- KEYS the script's own, then those of each lane (its bucket first), then pages and indexes
-- ARGV the script's own, the number of lanes, their names, then for each job: lane page id and more
--
-- A script reads records first, decides, and writes with one command per key. Reads are
-- bounded by bytes: after ROOM bytes it reads SMALL records only, so they do not wait
-- for large ones. Jobs whose records are left unread are for another call.
--
-- Where each job appends to a list, a variable has its length: for # Lua searches its end.
local stored = {} -- parts of records by field: false for none, nil if unread
local READ_AT_ONCE = 8 -- records
local room = ROOM
local by_name -- indexes by number, with the pages

-- is_small reports whether a record is read in any case.
local function is_small(page, fields, from, to)
  local size = 0
  for n = from, to do
    size = size + redis.call('HSTRLEN', page, fields[n])
  end
  return size <= SMALL
end

-- read_page reads the records of a page, some fields each, while there is room, and then
-- small ones only.
local function read_page(page, fields, each)
  local from, count = 1, #fields
  while from <= count do
    local to = math.min(count, from + (room > 0 and READ_AT_ONCE or 1) * each - 1)
    if room > 0 or is_small(page, fields, from, to) then
      local found, bytes = redis.call('HMGET', page, unpack(fields, from, to)), 0
      for n = from, to do
        local part = found[n - from + 1]
        stored[fields[n]] = part
        if part then
          bytes = bytes + #part
        end
      end
      room = room - bytes
    end
    from = to + 1
  end
end

-- batch returns the jobs, and by number the pages and indexes, and the lanes. It reads the
-- progress of the jobs, and their registrations if wanted. A script has OWN_KEYS and
-- own_args, lane_keys for each lane and job_args for each job.
local function batch(own_args, lane_keys, job_args, registrations_too)
  local lanes, others, jobs, wanted, total = {}, {}, {}, {}, 0
  local count = tonumber(ARGV[own_args + 1])
  for n = 1, count do
    local name, at = ARGV[own_args + 1 + n], OWN_KEYS + (n - 1) * lane_keys
    local topic = topic_of(name)
    lanes[text(n)] = {
      name = name, topic = topic, prefix = topic .. '/', bucket = KEYS[at + 1], ended = KEYS[at + 2], ordered = ordered(name),
      counts = counts_of(name),
    }
  end
  local last = OWN_KEYS + count * lane_keys
  for n = 1, #KEYS - last do
    others[text(n)] = KEYS[last + n]
  end
  by_name = others
  for a = own_args + 2 + count, #ARGV, job_args do
    local lane, page, id = lanes[ARGV[a]], others[ARGV[a + 1]], ARGV[a + 2]
    local field = lane.prefix .. id .. PROGRESS
    local j = { id = id, field = field, lane = lane, page = page, args = a + 2 }
    total = total + 1
    jobs[total] = j
    local fields = wanted[page]
    if not fields then
      fields = {}
      wanted[page] = fields
    end
    local i = #fields
    fields[i + 1] = field
    if registrations_too then
      j.name = lane.prefix .. id
      fields[i + 2] = j.name
    end
  end
  for page, fields in pairs(wanted) do
    read_page(page, fields, registrations_too and 2 or 1)
  end
  return jobs, others, lanes
end

-- read_scores sets each job's score at j.at, its bucket unless set, as text, or nil for none.
local function read_scores(jobs)
  local buckets = {}
  for _, j in ipairs(jobs) do
    local at = j.at
    if at == nil then
      at = j.lane.bucket
    end
    local of = buckets[at]
    if at and not of then
      of = { jobs = {}, ids = {}, n = 0 }
      buckets[at] = of
    end
    if at then
      local n = of.n + 1
      of.n, of.jobs[n], of.ids[n] = n, j, j.id
    end
  end
  for bucket, of in pairs(buckets) do
    local scores = redis.call('ZMSCORE', bucket, unpack(of.ids))
    for n = 1, of.n do
      of.jobs[n].score = scores[n] or nil
    end
  end
end

-- The order keeps an entry for each record, whatever fails.
local WRITES = { 'HSET', 'ZADD', 'ZREM', 'HDEL' }
local gathered = { HSET = {}, ZADD = {}, ZREM = {}, HDEL = {} }

-- write gathers the arguments of a command on a key.
local function write(command, key, a, b)
  local args = gathered[command][key]
  if not args then
    args = {}
    gathered[command][key] = args
  end
  local i = #args
  args[i + 1] = a
  if b then
    args[i + 2] = b
  end
end

-- name_of is the field of a job's registration.
local function name_of(j)
  return j.name or j.lane.prefix .. j.id
end

-- write_part writes the registration (its name) or the progress (j.field) of a job.
local function write_part(j, field, part)
  stored[field] = part
  write('HSET', j.page, field, part)
end

local function forget_part(j, field)
  stored[field] = false
  write('HDEL', j.page, field)
end

-- index_job adds a job to the indexes of its names, given by their numbers: '3', '3 5', or
-- '0' for none. before gets each index first.
local function index_job(j, numbers, before)
  if numbers ~= '0' then
    for number in string.gmatch(numbers, '%d+') do
      if before then
        before(by_name[number])
      end
      write('ZADD', by_name[number], '0', name_of(j))
    end
  end
end

-- unindex_job removes a job from indexes, except from those in which it stays.
local function unindex_job(j, numbers, stays)
  if numbers ~= '0' then
    for number in string.gmatch(numbers, '%d+') do
      if not string.find(' ' .. stays .. ' ', ' ' .. number .. ' ', 1, true) then
        write('ZREM', by_name[number], name_of(j))
      end
    end
  end
end

local function write_all()
  for _, command in ipairs(WRITES) do
    for key, args in pairs(gathered[command]) do
      redis.call(command, key, unpack(args))
    end
  end
end
