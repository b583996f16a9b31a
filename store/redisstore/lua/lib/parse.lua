-- Both parts of a record. A job to which nothing has happened has no progress.
local SHORT = '^%d+ %-?%d+\n(................)' -- the uid
local LONG = '^(%d+) %-?%d+ (%-?%d*) (%d*)[^\n]*\n(................)'
local FRESH = { -- the head of a job without a progress
  state = WAITING, token = '', version = '', cancel = '', tries = '  ', next = '', ended = '', expires = '', logs = '',
  count = '', updated = '', nonce = '', reason = '', mark = '',
}

-- parse returns head and uid of a job, and its own timeout if it has one. It returns nil for
-- anything but a record.
local function parse(registration, progress)
  if not registration then
    return nil
  end
  local uid, created, expires, timeout = string.match(registration, SHORT), nil, '', ''
  if not uid then
    created, expires, timeout, uid = string.match(registration, LONG)
  end
  if not uid then
    return nil
  elseif progress then
    local h = head_of(progress)
    if not h or uid_of(h, progress) ~= uid then
      return nil
    end
    return h, uid, tonumber(timeout)
  elseif expires ~= '' then
    return changed(FRESH, { expires = text(created + expires) }), uid, tonumber(timeout)
  end
  return FRESH, uid, tonumber(timeout)
end
