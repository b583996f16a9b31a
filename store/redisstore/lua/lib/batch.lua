-- Batches of jobs. A call names each key once; jobs refer to lanes, pages and indexes by number:
-- KEYS the script's own, then those of each lane (its bucket first), then pages and indexes
-- ARGV the script's own, the number of lanes, their names, then for each job: lane page id and more
--
-- A script reads records first, decides, and writes with one command per key. Reads are
-- bounded by bytes: after ROOM bytes it reads SMALL records only, so they do not wait
-- for large ones. Jobs whose records are left unread are for another call.
--
-- Where each job appends to a list, a variable has its length: for # Lua searches its end.
local registrations, progresses = {}, {} -- by the field of the progress; false for none, nil if unread
local READ_AT_ONCE = 8 -- records at most
local at_once, room = 1, ROOM

-- read reads records: some fields of a page, each of them per record.
local function read(page, fields, from, to, each)
  local found = redis.call('HMGET', page, unpack(fields, from, to))
  local bytes = 0
  for n = 1, to - from + 1, each do
    local field, progress = fields[from + n - 1], found[n]
    progresses[field] = progress
    bytes = bytes + (progress and #progress or 0)
    if each == 2 then
      local registration = found[n + 1]
      registrations[field] = registration
      bytes = bytes + (registration and #registration or 0)
    end
  end
  room = room - bytes
  -- One command could read far too much of large records.
  local small = bytes * each <= (to - from + 1) * READ_AT_ONCE * SMALL
  at_once = small and math.min(2 * at_once, READ_AT_ONCE) or 1
end

-- is_small reports whether a record is read in any case.
local function is_small(page, fields, from, each)
  local size = redis.call('HSTRLEN', page, fields[from])
  if each == 2 and size <= SMALL then
    size = size + redis.call('HSTRLEN', page, fields[from + 1])
  end
  return size <= SMALL
end

-- read_page reads the records of a page while there is room.
local function read_page(page, fields, each)
  local count, from = #fields, 1
  while from <= count do
    local to = room > 0 and math.min(from + at_once * each - 1, count) or from + each - 1
    if room > 0 or is_small(page, fields, from, each) then
      read(page, fields, from, to, each)
    end
    from = to + 1
  end
end

-- batch returns the jobs, and the pages and indexes by number. It reads their progress,
-- and their registrations if wanted. A script has OWN_KEYS and own_args, lane_keys for each
-- lane and job_args for each job.
local function batch(own_args, lane_keys, job_args, registrations_too)
  local lanes, others, jobs, wanted = {}, {}, {}, {}
  local count = tonumber(ARGV[own_args + 1])
  for n = 1, count do
    local name, at = ARGV[own_args + 1 + n], OWN_KEYS + (n - 1) * lane_keys
    local topic = topic_of(name)
    lanes[text(n)] = { name = name, topic = topic, prefix = topic .. '/', bucket = KEYS[at + 1], ended = KEYS[at + 2] }
  end
  local last = OWN_KEYS + count * lane_keys
  for n = 1, #KEYS - last do
    others[text(n)] = KEYS[last + n]
  end
  for a = own_args + 2 + count, #ARGV, job_args do
    local lane, page, id = lanes[ARGV[a]], others[ARGV[a + 1]], ARGV[a + 2]
    local name = lane.prefix .. id
    local field = progress_field(name)
    jobs[#jobs + 1] = { id = id, name = name, field = field, lane = lane, page = page, args = a + 2, score = nil }
    local fields = wanted[page]
    if not fields then
      fields = {}
      wanted[page] = fields
    end
    fields[#fields + 1] = field
    if registrations_too then
      fields[#fields + 1] = name
    end
  end
  for page, fields in pairs(wanted) do
    read_page(page, fields, registrations_too and 2 or 1)
  end
  return jobs, others
end

-- read_scores sets each job's score in its bucket, nil for none.
local function read_scores(jobs)
  local buckets = {}
  for _, j in ipairs(jobs) do
    local bucket = j.lane.bucket
    local of = buckets[bucket]
    if not of then
      of = { jobs = {}, ids = {} }
      buckets[bucket] = of
    end
    of.jobs[#of.jobs + 1], of.ids[#of.ids + 1] = j, j.id
  end
  for bucket, of in pairs(buckets) do
    local scores = redis.call('ZMSCORE', bucket, unpack(of.ids))
    for n, j in ipairs(of.jobs) do
      j.score = tonumber(scores[n] or nil)
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
  args[#args + 1] = a
  args[#args + 1] = b
end

local function write_registration(j, registration)
  registrations[j.field] = registration
  write('HSET', j.page, j.name, registration)
end

local function write_progress(j, progress)
  progresses[j.field] = progress
  write('HSET', j.page, j.field, progress)
end

local function forget_record(j)
  registrations[j.field], progresses[j.field] = false, false
  write('HDEL', j.page, j.name, j.field)
end

local function write_all()
  for _, command in ipairs(WRITES) do
    for key, args in pairs(gathered[command]) do
      redis.call(command, key, unpack(args))
    end
  end
end

