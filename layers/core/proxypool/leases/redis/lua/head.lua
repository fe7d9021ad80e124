-- The shared head. scripts.py joins a script's first line, this text and the rest of the script (a serverless cache has no
-- FUNCTION) and replaces the names in capitals with a dot, whose tables are in keys.py. KEYS[1] is the pool's hash tag.
-- Times are whole milliseconds of the server's clock, 13 digits, since `..` prints 14. A script that sees something as expired
-- ends it in the same step, so that it stays expired if the clock jumps back.
local P, call = KEYS[1] .. ':', redis.call
local SETTINGS, PROXY, FRESH = P .. KEY.settings, P .. KEY.proxy, P .. KEY.fresh
local LEASES, EXPIRIES, HELD, JOURNAL = P .. KEY.leases, P .. KEY.expiries, P .. KEY.held, P .. KEY.journal
local IDEMPOTENCY, REFUSALS, EXITS, PINS = P .. KEY.idempotency, P .. KEY.refusals, P .. KEY.exits, P .. KEY.pins
local NOT_BEFORE, FAILURES, BREAKERS = P .. KEY.not_before, P .. KEY.failures, P .. KEY.breakers
local SESSION_HOLDERS = P .. KEY.session_holders
local TIDY_MS, TIDY = 60000, 1000
local t = call('TIME')
local instant = t[1] .. ('00000' .. t[2]):sub(-6, -4)  -- as text, to be stored: Lua converts a number at the cost of a call
local now = tonumber(instant)

-- Whether a proxy can take one more holder: its check is fresh, its breaker not open (half-open: one probe), a slot free.
-- A member without a proxy has no room: it must not make every acquire that draws it an error.
local function has_room(fresh, held, slots, breaker)
  return breaker ~= BREAKER.open and (tonumber(fresh) or 0) > now and held < (breaker == BREAKER.half_open and 1 or tonumber(slots))
end

-- The functions that end leases and return proxies. Created on first use: creating one costs as much as a Redis call, and
-- most leases are granted while nothing ends.
local made
local function rules()
  if made then return made end

  -- Removes a member from its ready sets.
  local function pull(member, sets)
    for set in sets:gmatch('%S+') do call('ZREM', P .. set, member) end
  end

  -- Adds a proxy to its ready sets or removes it. No other function decides that.  O(log n)
  local function place(id)
    local p = call('HMGET', PROXY .. id, F.member, F.score, F.sets, F.fresh_until, F.holders, F.slots, F.breaker)
    local held = tonumber(p[5]) or 0
    if not p[1] then
      if held == 0 then  -- removed: its URL is deleted with the last holder
        call('HDEL', PROXY .. id, F.facts, F.holders, F.grants, F.failures, F.breaker)
      end
    elseif has_room(p[4], held, p[6], p[7]) then
      for set in p[3]:gmatch('%S+') do call('ZADD', P .. set, p[2], p[1]) end
    else
      pull(p[1], p[3])
    end
  end

  -- A lease's record as a list, with the positions of table L in keys.py; its end is stored in EXPIRIES.
  local function parse(record, ends)
    local lease = {record:match('^(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.*)$')}
    lease[L.ends] = ends
    return lease
  end

  -- A lease as a journal entry.
  local function entry(id, lease)
    return table.concat({id, lease[L.owner], lease[L.proxy], lease[L.target], lease[L.granted], lease[L.ends],
                         lease[L.outcome]}, '|')
  end

  -- A lease as the scripts return it.
  local function shown(id, lease)
    local facts = call('HGET', PROXY .. lease[L.proxy], F.facts)
    return {id, lease[L.proxy], lease[L.fence], lease[L.ends], lease[L.granted], facts, lease[L.session]}
  end

  -- Ends a lease and writes it to the journal, with the outcome if one was just reported. The quota is returned, and the
  -- holder, too, unless the session has more leases of the proxy; a target's probe frees its slot.  O(log n)
  local function finish(kind, id, lease, has_outcome)
    call('ZREM', EXPIRIES, END.lease .. id)
    call('HDEL', LEASES, id)
    call('SREM', HELD .. lease[L.owner], id)
    local text = entry(id, lease)
    if has_outcome then call('XADD', JOURNAL, '*', JOURNAL_KINDS.outcome, text, kind, text) else call('XADD', JOURNAL, '*', kind, text) end
    local target, exit = lease[L.target], lease[L.exit]
    if target ~= '' and call('HGET', BREAKERS, target) == BREAKER.half_open .. id then  -- it was the probe
      call('HSET', BREAKERS, lease[L.target], BREAKER.half_open)
    end
    if lease[L.session] ~= '' then
      local holder = lease[L.owner] .. '|' .. lease[L.session] .. '|' .. lease[L.proxy]
      if call('HINCRBY', SESSION_HOLDERS, holder, -1) > 0 then return end
      call('HDEL', SESSION_HOLDERS, holder)
    end
    if exit ~= '' and call('HINCRBY', EXITS, exit, -1) <= 0 then call('HDEL', EXITS, exit) end
    call('HINCRBY', PROXY .. lease[L.proxy], F.holders, -1)
    place(lease[L.proxy])
  end

  -- A live lease of this owner; nil if it is unknown, another owner's or expired.
  local function find(id, owner)
    local record = call('HGET', LEASES, id)
    if not record then return nil end
    local lease = parse(record, call('ZSCORE', EXPIRIES, END.lease .. id) or '0')
    if tonumber(lease[L.ends]) <= now then finish(JOURNAL_KINDS.expiry, id, lease) return nil end
    return lease[L.owner] == owner and lease or nil
  end

  -- A target's breaker: nil (closed), open, half-open, or half-open and the lease id of its probe. Applies what has expired.
  local function target_state(target)
    local state = call('HGET', BREAKERS, target)
    if state == BREAKER.open and tonumber(call('ZSCORE', EXPIRIES, END.target_breaker .. target) or 0) <= now then
      call('HSET', BREAKERS, target, BREAKER.half_open)
      return BREAKER.half_open
    end
    local probe = state and #state > 1 and state:sub(2)
    if probe and not find(probe, call('HGET', LEASES, probe):match('^[^|]*')) then return BREAKER.half_open end
    return state or nil
  end

  -- Deletes at most TIDY expired numbers of a target; scheduled again while there are more.
  local function tidy(target)
    local old = call('ZRANGE', NOT_BEFORE .. target, '-inf', now, 'BYSCORE', 'LIMIT', 0, TIDY)
    if old[1] then call('ZREM', NOT_BEFORE .. target, unpack(old)) end
    local fails = call('HGETALL', FAILURES .. target)
    for i = 1, #fails, 2 do
      if tonumber(fails[i + 1]:match('^%d+')) + TIDY_MS <= now then call('HDEL', FAILURES .. target, fails[i]) end
    end
    if call('EXISTS', NOT_BEFORE .. target, FAILURES .. target) > 0 then
      call('ZADD', EXPIRIES, now + (old[TIDY] and 1 or TIDY_MS), END.numbers .. target)
    end
  end

  local by_kind = {
    [END.idempotency] = function(key) call('HDEL', IDEMPOTENCY, key) end,
    [END.pin] = function(pin) call('HDEL', PINS, pin) end,
    [END.numbers] = tidy,
    [END.proxy_breaker] = function(id)
      if call('HGET', PROXY .. id, F.breaker) == BREAKER.open then
        call('HSET', PROXY .. id, F.breaker, BREAKER.half_open)
        place(id)
      end
    end,
    [END.version] = function(id)
      if call('HLEN', PROXY .. id) == 1 then call('DEL', PROXY .. id) end
    end,
  }

  -- Ends expired things: members of EXPIRIES, each with its end. Returns how many were leases.
  local function settle(due)
    local ended = 0
    for i = 1, #due, 2 do
      local kind, id = due[i]:sub(1, 1), due[i]:sub(2)
      local record = kind == END.lease and call('HGET', LEASES, id)
      if record then
        finish(JOURNAL_KINDS.expiry, id, parse(record, due[i + 1]))
        ended = ended + 1
      else
        call('ZREM', EXPIRIES, due[i])
        if by_kind[kind] then by_kind[kind](id) end
      end
    end
    return ended
  end

  -- Removes at most n proxies whose check is too old from the ready sets; returns how many.
  local function freshen(n)
    local stale = call('ZRANGE', FRESH, '-inf', now, 'BYSCORE', 'LIMIT', 0, n)
    for _, id in ipairs(stale) do
      call('ZREM', FRESH, id)
      place(id)
    end
    return #stale
  end

  made = {pull = pull, place = place, entry = entry, shown = shown, finish = finish, find = find, target_state = target_state,
          tidy = tidy, settle = settle, freshen = freshen}
  return made
end

-- Ends at most n expired things; returns how many, and how many of them were leases.
local function purge(n)
  local due = call('ZRANGE', EXPIRIES, '-inf', instant, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES')
  if not due[1] then return 0, 0 end
  return #due / 2, rules().settle(due)
end
