-- Shared by the scripts that work on batches. Each key is named once, and jobs
-- refer to lanes, pages and indexes by number:
-- KEYS fixed ones, then those of each lane (its bucket first), then pages and indexes
-- ARGV fixed ones, the number of lanes, their names, then for each job: lane page id and more
--
-- Records are read before anything is decided, and what changes is written with one
-- command for each key at the end. What is read is bounded by bytes, too: when ROOM
-- bytes are read, only SMALL records still are. So jobs with small records do not wait
-- for those with large ones. Jobs whose records are left unread are for another call.
--
-- Long lists are counted, in n, where each job adds to them: Lua searches for the end
-- of a list whenever it is asked for its length.
local registrations, progresses = {}, {} -- by the field of the progress; false for none, nil if unread
local READ_AT_ONCE = 8 -- records at most
local at_once, room = 1, ROOM

-- read reads records: their fields of a page from a number to a number, of which
-- each record has so many.
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
  -- Of large records one command could read far more than there is room for.
  local small = bytes * each <= (to - from + 1) * READ_AT_ONCE * SMALL
  at_once = small and math.min(2 * at_once, READ_AT_ONCE) or 1
end

-- is_small reports whether a record is read whatever was read before.
local function is_small(page, fields, from, each)
  local size = redis.call('HSTRLEN', page, fields[from])
  if each == 2 and size <= SMALL then
    size = size + redis.call('HSTRLEN', page, fields[from + 1])
  end
  return size <= SMALL
end

-- read_page reads the records of a page, as far as there is room.
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

-- batch gives the jobs, and what the numbers of pages and indexes stand for. It
-- reads their progress, and their registrations only if these are wanted.
local function batch(fixed_keys, lane_keys, fixed_args, job_args, registrations_too)
  local lanes, others, jobs, wanted = {}, {}, {}, {}
  local count = tonumber(ARGV[fixed_args + 1])
  for n = 1, count do
    local name, at = ARGV[fixed_args + 1 + n], fixed_keys + (n - 1) * lane_keys
    local topic = topic_of(name)
    lanes[tostring(n)] = { name = name, topic = topic, prefix = topic .. '/', keys = at, bucket = KEYS[at + 1] }
  end
  local last = fixed_keys + count * lane_keys
  for n = 1, #KEYS - last do
    others[tostring(n)] = KEYS[last + n]
  end
  for a = fixed_args + 2 + count, #ARGV, job_args do
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

-- read_scores gives each job its score in its lane's bucket, nil for none.
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

-- In this order no job is without an entry, whatever fails.
local WRITES = { 'HSET', 'ZADD', 'ZREM', 'HDEL' }
local gathered = { HSET = {}, ZADD = {}, ZREM = {}, HDEL = {} }

-- write gathers what a command is to do for one job: a is its id, score or
-- field, b what follows that, if anything.
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

