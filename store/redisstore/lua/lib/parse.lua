-- Both parts of a record. A job to which nothing has happened has no progress.
local SHORT, LONG = '^%d+ %-?%d+$', '^(%d+) %-?%d+ (%-?%d*) (%d*)' -- heads of registrations
local FRESH = { -- the head of a job without a progress
  state = WAITING, token = '', version = '', cancel = '', tries = '  ', next = '', ended = '', expires = '', logs = '',
  count = '', updated = '', nonce = '', reason = '', mark = '',
}

-- terms_of reads the head of a registration: the job's own timeout if it has one, and its head
-- while it has no progress. It returns false for anything else. Jobs share them.
local terms = {}
local function terms_of(written)
  local of = terms[written]
  if of == nil then
    local created, expires, timeout = string.match(written, LONG)
    if created then
      of = { fresh = expires == '' and FRESH or changed(FRESH, { expires = text(created + expires) }), timeout = tonumber(timeout) }
    else
      of = string.match(written, SHORT) and { fresh = FRESH, timeout = nil } or false
    end
    terms[written] = of
  end
  return of
end

-- parse returns head and uid of a job, and its own timeout if it has one. It returns nil for
-- anything but a record.
local function parse(registration, progress)
  local line = registration and string.find(registration, '\n', 1, true)
  local of = line and terms_of(string.sub(registration, 1, line - 1))
  local uid = of and string.sub(registration, line + 1, line + UID)
  if not uid or #uid < UID then
    return nil
  elseif not progress then
    return of.fresh, uid, of.timeout
  end
  local h = head_of(progress)
  if h and uid_of(h, progress) == uid then
    return h, uid, of.timeout
  end
end
