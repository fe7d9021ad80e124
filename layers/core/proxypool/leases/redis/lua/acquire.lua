#!lua
-- acquire: grants count leases, at least at_least of them, or none. This file decides whether the caller may have any, and follows
-- a session to its proxy; choose.lua selects proxies, grant.lua writes the leases.  O(log n + k): a few draws by rank, then
-- at most BUDGET candidates and OVERDUE ends.
-- ARG base: 32 hex digits, lease ids are base.1 … base.n · owner_quota: unless the pool has its own · request_key: hash of the
--   Idempotency-Key or '' · fingerprint: of the request with that key · repeated: '1' if this base may have been sent before
--   · memo: hash of the filters, '' to remember no refusal · pin_ms: a session's pin slides by this · ready_sets: names,
--   separated by spaces · min_score: billionths · distinct_exit: '1' or '' · target: or '' · rest: need_count conditions
--   (leases/filters.py), then excluded proxy ids
-- Result {'ok', 'moved' (the session left its proxy) or 'again', {id, proxy, fence, expires, granted, facts, session~since}…}
--   · {'rebuilding'} · {'paused'} · {'journal'} · {'conflict'} · {'ended'} (the leases of the repeated request are over)
--   · {'quota', held} · {'empty', ms to wait, {reason, n…}}
local OVERDUE = 1000  -- expired things that one call ends at most
local base, owner, session, target = ARG.base, ARG.owner, ARG.session, ARG.target
local n, least = tonumber(ARG.count), tonumber(ARG.at_least)

local function refuse(reason, ...)
  call('HINCRBY', REFUSALS, reason, 1)
  return {reason, ...}
end

local pool = target == '' and call('HMGET', SETTINGS, 'epoch', 'paused', 'owner_quota', 'exit_cap')
  or call('HMGET', SETTINGS, 'epoch', 'paused', 'owner_quota', 'exit_cap', 'rate:*', 'rate:' .. target)
if not pool[1] then return {'rebuilding'} end

-- A repeated request gets the leases of the first one, never a second grant (I2): found by its key, or by its base id where
-- the answer was lost. A repeated base is stored as a key, so that the first call grants nothing if it arrives late.
local earlier = call('HMGET', IDEMPOTENCY, base, ARG.request_key)
local first, granted = nil, n
if earlier[1] or earlier[2] then
  local fingerprint
  first, granted, fingerprint = (earlier[1] or earlier[2]):match('^(.-)|(.-)|(.*)$')
  if fingerprint ~= ARG.fingerprint then return refuse('conflict') end
elseif ARG.repeated == '1' and call('HEXISTS', LEASES, base .. '.1') == 1 then
  first = base
end
if first then
  local r, out = rules(), {'again'}
  for i = 1, granted do
    local id = first .. '.' .. i
    local lease = r.find(id, owner)
    if lease then out[#out + 1] = r.shown(id, lease) end
  end
  return out[2] and out or {'ended'}
end

if pool[2] == '1' then return refuse('paused') end
if call('XLEN', JOURNAL) >= tonumber(ARG.journal_max) then return refuse('journal') end
local behind = purge(2 * n + 2) == 2 * n + 2
local quota, held = tonumber(pool[3] or ARG.owner_quota), call('SCARD', HELD .. owner)
if behind and (held + n > quota or session ~= '') then  -- expired leases must not decide this
  purge(OVERDUE)
  held = call('SCARD', HELD .. owner)
end
if held + least > quota then return refuse('quota', held) end
n = math.min(n, quota - held)

-- The target's limits: one use of an exit per `gap` ms, up to `slack` ms early (GCRA); no lease while its breaker is open, one
-- probe while it is half-open.
local paced_by, gap, slack, probe = target ~= '' and NOT_BEFORE .. target, 0, 0, false
if paced_by then
  local rate = pool[6] or pool[5]
  if rate then
    local every, burst = rate:match('^(%d+) (%d+)$')
    gap = tonumber(every)
    slack = (burst - 1) * gap
  end
  if call('HEXISTS', BREAKERS, target) == 1 then
    local state = rules().target_state(target)
    if state and (state ~= BREAKER.half_open or least > 1) then
      local back = state == BREAKER.open and END.target_breaker .. target or END.lease .. state:sub(2)
      return refuse('empty', (tonumber(call('ZSCORE', EXPIRIES, back)) or now) - now, {'target_open', 1})
    end
    if state then probe, n = true, 1 end
  end
end

-- A session stays with its proxy as long as that can be leased for this target.
local picks, excluded = {}, {}
local pin = session ~= '' and owner .. '|' .. session
local joined, moved, since = false, false, instant
local at = pin and call('HGET', PINS, pin)
if at then
  local id, pinned = at:match('^(.-)|(.*)$')
  if pinned + ARG.pin_total_ms > now then
    local p = call('HMGET', PROXY .. id, F.member, F.fresh_until, F.holders, F.slots, F.breaker, F.grants, F.sets, F.facts)
    if p[1] and p[5] ~= BREAKER.open and tonumber(p[2]) > now then
      local exit = p[1]:match('^[^|]*', MEMBER.exit)
      local number = paced_by and tonumber(call('ZSCORE', paced_by, exit) or 0) or 0
      if number <= now + slack + gap then
        since, joined = pinned, call('HEXISTS', SESSION_HOLDERS, pin .. '~' .. pinned .. '|' .. id) == 1
        if number - slack > now then return refuse('empty', number - slack - now, {'cooling', 1}) end
        local slots, holders = p[5] == BREAKER.half_open and 1 or tonumber(p[4]), tonumber(p[3]) or 0
        if not joined and holders >= slots then return refuse('empty', 1000, {'session_busy', 1}) end
        picks[1] = {p[1], id, exit, number, held = holders, slots = slots, used = tonumber(p[6]) or 0, sets = p[7],
                    facts = p[8], times = 1}
      end
    end
    -- Later than the previous pin even within one millisecond or after a clock jump: a gateway's name for it is made of `since`.
    if not picks[1] then moved, excluded[id], since = true, true, math.max(now, pinned + 1) end
  end
end
