-- Records. A page is a hash with two fields for each job, so bodies are not written again:
-- topic/id   "<head>\n<uid><spec>", the registration: what the client asked for
-- topic/id+  "<head>\n<uid><log>", the progress: what happened since, if anything
-- Heads are text, for HGET. Scripts read nothing behind them but the uid.
--
-- A registration's head is "<created> <due>", or "<created> <due> <expires> <timeout>"
-- with a TTL or a timeout: due and expires in ms after created, empty for none. With an order
-- key it is "<created> <due> <expires> <timeout> <order key>".
--
-- A progress's head has the fields of render. Times are ms since 1970. An empty field is
-- 0, or 1 for version, or no time. An empty next of an unfinished job is its first due
-- time. Jobs of a batch mostly share a head, which is parsed and written once for all.
local HEAD = '^(%d+) (%d*) (%d*) (%d*) (%d* %d* %d*) (%d*) (%d*) (%d*) (%d*) (%d*) (%d*) (%S*) (%S*) (%S*)$'

-- number is a field as a number.
local function number(field, usual)
  return tonumber(field) or usual
end

-- render writes the text of a head.
local function render(h)
  h.text = table.concat({
    text(h.state), h.token, h.version, h.cancel, h.tries, h.next, h.ended, h.expires, h.logs, h.count, h.updated, h.nonce, h.reason, h.mark,
  }, ' ')
  return h
end

-- changed is a copy of a head with new values for some fields.
local function changed(h, with)
  local new = {}
  for _, from in ipairs({ h, with }) do
    for field, value in pairs(from) do
      new[field] = value
    end
  end
  return render(new)
end

-- head_of parses the head of a progress; false for anything else. All fields but state are
-- text; tries is attempts, snoozes and expired leases, count is twice the job's count, and 1 if it has
-- fired. Jobs share heads: never change one.
local parsed = {}
local function head_of(progress)
  local written = string.sub(progress, 1, (string.find(progress, '\n', 1, true) or 0) - 1)
  local h = parsed[written]
  if h == nil then
    local state, token, version, cancel, tries, next, ended, expires, logs, total, updated, nonce, reason, mark = string.match(written, HEAD)
    h = mark and {
      state = tonumber(state), token = token, version = version, cancel = cancel, tries = tries, next = next, ended = ended,
      expires = expires, logs = logs, count = total, updated = updated, nonce = nonce, reason = reason, mark = mark, text = written,
    } or false
    parsed[written] = h
  end
  return h
end

-- uid_of is the uid in a progress with the head h.
local function uid_of(h, progress)
  return string.sub(progress, #h.text + 2, #h.text + 17)
end
