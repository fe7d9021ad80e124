-- The shared head: the caller sends a script's first line, this text and the rest of the script as one (a serverless cache
-- has no FUNCTION). KEYS[1] is the pool's hash tag; leases/keys.py explains every key. Times are whole milliseconds of the
-- server's clock: 13 digits, since `..` keeps 14. What a script sees as over it ends in that same step, so that a clock that
-- jumps back revives nothing.
local P, call = KEYS[1] .. ':', redis.call
local POOL, PROXY, FRESH, LEASES, DUE = P .. KEY.settings, P .. KEY.proxy, P .. KEY.fresh, P .. KEY.leases, P .. KEY.expiries
local HELD, ASKED, REFUSED, LOG, EXITS = P .. KEY.held, P .. KEY.idempotency, P .. KEY.refusals, P .. KEY.journal, P .. KEY.exits
local PACE, FAILS, TARGETS, PINS, JOINT = P .. KEY.not_before, P .. KEY.failures, P .. KEY.breakers, P .. KEY.pins, P .. KEY.session_holders
local TIDY_MS, TIDY = 60000, 1000
local t = call('TIME')
local instant = t[1] .. ('00000' .. t[2]):sub(-6, -4)  -- as text, for keeping: Lua prints a number at the price of a call
local now = tonumber(instant)

-- Whether a proxy may take one holder more: its check is fresh, its breaker not open (half-open: one probe), a slot free.
local function has_room(fresh, held, slots, breaker)
  return breaker ~= BREAKER.open and tonumber(fresh) > now and held < (breaker == BREAKER.half_open and 1 or tonumber(slots))
end

-- The functions by which things end and come back. Made when first asked for: to make one costs as much as a call of the
-- server, and most leases are granted while nothing ends.
local made
local function rules()
  if made then return made end

  -- Out of the ready sets.
  local function pull(member, sets)
    for set in sets:gmatch('%S+') do call('ZREM', P .. set, member) end
  end

  -- Whether a proxy stands in the ready sets. The only place that decides.  O(log n)
  local function place(id)
    local p = call('HMGET', PROXY .. id, F.member, F.score, F.sets, F.fresh_until, F.holders, F.slots, F.breaker)
    local held = tonumber(p[5]) or 0
    if not p[1] then
      if held == 0 then call('HDEL', PROXY .. id, F.facts, F.holders, F.grants, F.failures, F.breaker) end  -- removed: its URL goes with the last holder
    elseif has_room(p[4], held, p[6], p[7]) then
      for set in p[3]:gmatch('%S+') do call('ZADD', P .. set, p[2], p[1]) end
    else
      pull(p[1], p[3])
    end
  end

  -- A lease's record: owner, proxy, exit, target, granted, fence, session~since, outcome; [9] is its end.
  local function parse(record, ends)
    local lease = {record:match('^(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.-)|(.*)$')}
    lease[L.ends] = ends
    return lease
  end

  -- What the journal says of a lease.
  local function entry(id, lease)
    return table.concat({id, lease[L.owner], lease[L.proxy], lease[L.target], lease[L.granted], lease[L.ends], lease[L.outcome]}, '|')
  end

  -- What a lease answer is made of.
  local function shown(id, lease)
    return {id, lease[L.proxy], lease[L.fence], lease[L.ends], lease[L.granted], call('HGET', PROXY .. lease[L.proxy], F.facts), lease[L.session]}
  end

  -- Ends a lease and writes it down, with the outcome if one was just told: the quota comes back; the holder too, unless
  -- further leases of its session stand on the proxy; a target's probe frees its slot.  O(log n)
  local function finish(kind, id, lease, told)
    call('ZREM', DUE, END.lease .. id)
    call('HDEL', LEASES, id)
    call('SREM', HELD .. lease[L.owner], id)
    local text = entry(id, lease)
    if told then call('XADD', LOG, '*', ENTRY.outcome, text, kind, text) else call('XADD', LOG, '*', kind, text) end
    if lease[L.target] ~= '' and call('HGET', TARGETS, lease[L.target]) == BREAKER.half_open .. id then call('HSET', TARGETS, lease[L.target], BREAKER.half_open) end
    if lease[L.session] ~= '' then
      local joint = lease[L.owner] .. '|' .. lease[L.session] .. '|' .. lease[L.proxy]
      if call('HINCRBY', JOINT, joint, -1) > 0 then return end
      call('HDEL', JOINT, joint)
    end
    if lease[L.exit] ~= '' and call('HINCRBY', EXITS, lease[L.exit], -1) <= 0 then call('HDEL', EXITS, lease[L.exit]) end
    call('HINCRBY', PROXY .. lease[L.proxy], F.holders, -1)
    place(lease[L.proxy])
  end

  -- A live lease of this owner; nil for unknown, foreign and overdue alike.
  local function find(id, owner)
    local record = call('HGET', LEASES, id)
    if not record then return nil end
    local lease = parse(record, call('ZSCORE', DUE, END.lease .. id) or '0')
    if tonumber(lease[L.ends]) <= now then finish(ENTRY.expiry, id, lease) return nil end
    return lease[L.owner] == owner and lease or nil
  end

  -- A target's breaker as it is now: nil (closed), 'o', 'h', or 'h' and its probe's lease; what of it is over ends here.
  local function target_state(target)
    local state = call('HGET', TARGETS, target)
    if state == BREAKER.open and tonumber(call('ZSCORE', DUE, END.target_breaker .. target) or 0) <= now then
      call('HSET', TARGETS, target, BREAKER.half_open)
      return BREAKER.half_open
    end
    if state and #state > 1 and not find(state:sub(2), call('HGET', LEASES, state:sub(2)):match('^[^|]*')) then return BREAKER.half_open end
    return state or nil
  end

  -- Forgets at most TIDY old numbers of a target; comes again while some are left.
  local function tidy(target)
    local old = call('ZRANGE', PACE .. target, '-inf', now, 'BYSCORE', 'LIMIT', 0, TIDY)
    if old[1] then call('ZREM', PACE .. target, unpack(old)) end
    local fails = call('HGETALL', FAILS .. target)
    for i = 1, #fails, 2 do
      if tonumber(fails[i + 1]:match('^%d+')) + TIDY_MS <= now then call('HDEL', FAILS .. target, fails[i]) end
    end
    if call('EXISTS', PACE .. target, FAILS .. target) > 0 then
      call('ZADD', DUE, now + (old[TIDY] and 1 or TIDY_MS), END.numbers .. target)
    end
  end

  local by_kind = {
    i = function(key) call('HDEL', ASKED, key) end,
    s = function(pin) call('HDEL', PINS, pin) end,
    p = tidy,
    b = function(id)
      if call('HGET', PROXY .. id, F.breaker) == BREAKER.open then call('HSET', PROXY .. id, F.breaker, BREAKER.half_open) place(id) end
    end,
    v = function(id)
      if call('HLEN', PROXY .. id) == 1 then call('DEL', PROXY .. id) end
    end,
  }

  -- Ends what is overdue: members of `due`, each with its end; returns how many were leases.
  local function settle(due)
    local ended = 0
    for i = 1, #due, 2 do
      local kind, id = due[i]:sub(1, 1), due[i]:sub(2)
      local record = kind == END.lease and call('HGET', LEASES, id)
      if record then
        finish(ENTRY.expiry, id, parse(record, due[i + 1]))
        ended = ended + 1
      else
        call('ZREM', DUE, due[i])
        if by_kind[kind] then by_kind[kind](id) end
      end
    end
    return ended
  end

  -- Takes at most n proxies whose check is too old out of the ready sets; returns how many.
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

-- Handles at most n overdue things; returns how many, and how many of them were leases.
local function purge(n)
  local due = call('ZRANGE', DUE, '-inf', instant, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES')
  if not due[1] then return 0, 0 end
  return #due / 2, rules().settle(due)
end
