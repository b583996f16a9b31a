-- Turns of order keys (job.Turn). Of the unfinished jobs of a topic with the same order key
-- only the head may be claimed. The HASH heads has the head of each key topic/order_key,
-- and the ZSET turns the others: the key, a blank and the job. Scores are 0. A job is
-- written as its turn and its name, lane|id. A turn is stage, due and created in digits,
-- and the uid. The ZSET calls has the jobs that became heads: carrying has them due.
--
-- A waiting job that is not the head is parked: PARK is added to its score.

-- open_turns makes the functions, for calls with such jobs only: each definition costs time.
local function open_turns()
  local t = {}
  local read, vacant = {}, {} -- heads by key, false for none; keys whose head left
  local touched = {} -- keys whose head changed
  local left = {} -- names of heads that left

  -- prefetch reads the heads of keys at once.
  function t.prefetch(keys)
    if #keys > 0 then
      for n, head in ipairs(redis.call('HMGET', heads, unpack(keys))) do
        read[keys[n]] = head
      end
    end
  end

  function t.head(key)
    if read[key] == nil then
      read[key] = redis.call('HGET', heads, key)
    end
    return read[key]
  end

  -- text is the turn of a job that was registered.
  function t.text(due, created, uid)
    return string.format(FRESH_TURN .. '%013d%013d', due, created) .. uid
  end

  function t.name(text)
    return string.sub(text, TURN + 1)
  end

  -- goes_before compares digits first, and then the uids byte by byte: comparing them as
  -- texts would depend on the server's locale.
  local function goes_before(a, b)
    local x, y = string.sub(a, 1, DIGITS), string.sub(b, 1, DIGITS)
    if x ~= y then
      return x < y
    end
    for i = DIGITS + 1, TURN do
      local p, q = string.byte(a, i), string.byte(b, i)
      if p ~= q then
        return p < q
      end
    end
    return false
  end

  local function set_head(key, text)
    read[key], touched[key] = text, true
  end

  local function wait(key, text)
    redis.call('ZADD', turns, 0, key .. ' ' .. text)
  end

  -- next_of is the first of the others.
  local function next_of(key)
    local first = redis.call('ZRANGE', turns, '[' .. key .. ' ', '(' .. key .. '!', 'BYLEX', 'LIMIT', '0', '1')[1]
    return first and string.sub(first, #key + 2)
  end

  -- enter gives an unfinished job its place, and reports whether it is the head. A head that
  -- was claimed has the least turn.
  function t.enter(key, text)
    local head = t.head(key)
    if not head then
      local first = vacant[key] and next_of(key)
      if first and goes_before(first, text) then
        wait(key, text)
        return false
      end
    elseif goes_before(text, head) then
      wait(key, head) -- claiming it parks it
    else
      wait(key, text)
      return false
    end
    set_head(key, text)
    return true
  end

  -- leave takes a job out. It reports whether it was the head, or stopped its key.
  function t.leave(key, text)
    local head, name = t.head(key), t.name(text)
    if head and t.name(head) == name then
      set_head(key, false)
      vacant[key] = true
      left[#left + 1] = name
      return true
    end
    redis.call('ZREM', turns, key .. ' ' .. text)
    return false
  end

  -- claim marks the head as claimed, and reports whether the job is the head.
  function t.claim(key, name)
    local head = t.head(key) or string.rep('0', TURN) .. name -- none: as if it were registered now
    if t.name(head) ~= name then
      return false
    end
    local claimed = CLAIMED_TURN .. string.sub(head, 2)
    if claimed ~= read[key] then
      set_head(key, claimed)
    end
    return true
  end

  -- same reports whether two turns are of one registration.
  function t.same(a, b)
    return string.sub(a, DIGITS + 1, TURN) == string.sub(b, DIGITS + 1, TURN)
  end

  -- put_first has a job go first whatever its turn.
  function t.put_first(key, text)
    set_head(key, text)
  end

  -- stop has a dead letter stop its key, unless another job has its turn.
  function t.stop(key, text)
    local head = t.head(key)
    if head and string.sub(head, 1, 1) == CLAIMED_TURN then
      return
    end
    if head then
      wait(key, head)
    end
    set_head(key, CLAIMED_TURN .. string.sub(text, 2))
  end

  -- write has the next jobs called, and writes heads.
  function t.write(now)
    if #left > 0 then
      redis.call('ZREM', calls, unpack(left))
    end
    for key in pairs(vacant) do
      local next = not read[key] and next_of(key)
      if next then
        redis.call('ZREM', turns, key .. ' ' .. next)
        set_head(key, next)
        local name = t.name(next)
        redis.call('ZADD', calls, 0, name)
        look_at(string.match(name, '^(.*)|'), now)
      end
    end
    local set, gone = {}, {}
    for key in pairs(touched) do
      if read[key] then
        set[#set + 1], set[#set + 2] = key, read[key]
      else
        gone[#gone + 1] = key
      end
    end
    if #set > 0 then
      redis.call('HSET', heads, unpack(set))
    end
    if #gone > 0 then
      redis.call('HDEL', heads, unpack(gone))
    end
  end
  return t
end
