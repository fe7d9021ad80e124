#!lua
-- acquire: grants 1..n leases, or none. This file says whether the caller may have any and follows a session to its proxy,
-- choose.lua takes proxies, grant.lua writes the leases down.  O(log n + k): a few draws by rank, then at most BUDGET
-- candidates and OVERDUE ends.
-- ARGV 1 base id (lease ids are base.1 … base.n)  2 owner  3 n  4 least n that will do  5 ttl ms  6 quota, where the pool has none
--   7 journal's greatest length  8 request key, or ''  9 fingerprint of the request  10 ms that the request key is kept
--   11 '1': this base may have been sent before  12 hash of target and filters, or ''  13 session or ''  14 ms that a pin
--   slides  15 ms that it lives at most  16 strategy  17 ready sets to choose from 'r:http:us:1 r:http:us:2'
--   18 https '1' or ''  19 kind's letter or ''  20 least score (billionths)  21 latency ms at most, 0: any  22 region or ''
--   23 IPv4 exits '1' or ''  24 source or ''  25 distinct exits '1' or ''  26 target or ''  27 how many tags follow
--   28… tags, then excluded proxies
-- Result {'ok', 'moved' (the session left its proxy) or 'again', {id, proxy, fence, expires, granted, facts, session~since}…}
--   · {'rebuilding'} · {'paused'} · {'journal'} · {'conflict'} · {'ended'} (the repeated request's leases are over)
--   · {'quota', held} · {'empty', ms to wait, {reason, n…}}
local OVERDUE = 1000  -- ends made true at once
local base, owner, n, least, session, target = ARG.base, ARG.owner, tonumber(ARG.count), tonumber(ARG.at_least), ARG.session, ARG.target

local function refuse(reason, ...)
  call('HINCRBY', REFUSED, reason, 1)
  return {reason, ...}
end

local pool = target == '' and call('HMGET', POOL, 'epoch', 'paused', 'owner_quota', 'exit_cap')
  or call('HMGET', POOL, 'epoch', 'paused', 'owner_quota', 'exit_cap', 'rate:*', 'rate:' .. target)
if not pool[1] then return {'rebuilding'} end

-- A repeat finds the leases of the first call, never a second grant (I2): by its key, or by its base id where the answer
-- was lost. A base that came twice is kept as a key, so that the first call does nothing when it comes late.
local asked = call('HMGET', ASKED, base, ARG.request_key)
local first, granted = nil, n
if asked[1] or asked[2] then
  local print
  first, granted, print = (asked[1] or asked[2]):match('^(.-)|(.-)|(.*)$')
  if print ~= ARG.fingerprint then return refuse('conflict') end
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
if call('XLEN', LOG) >= tonumber(ARG.journal_max) then return refuse('journal') end
local behind = purge(2 * n + 2) == 2 * n + 2
local quota, held = tonumber(pool[3] or ARG.owner_quota), call('SCARD', HELD .. owner)
if behind and (held + n > quota or session ~= '') then  -- what is overdue decides here: it must not count any more
  purge(OVERDUE)
  held = call('SCARD', HELD .. owner)
end
if held + least > quota then return refuse('quota', held) end
n = math.min(n, quota - held)

-- What the target allows: a use of an exit every `gap` ms, `slack` ms ahead of time; nobody while its breaker is open, one
-- probe while that is half-open.
local pace, gap, slack, probe = target ~= '' and PACE .. target, 0, 0, false
if pace then
  local rate = pool[6] or pool[5]
  if rate then
    local every, burst = rate:match('^(%d+) (%d+)$')
    gap = tonumber(every)
    slack = (burst - 1) * gap
  end
  if call('HEXISTS', TARGETS, target) == 1 then
    local state = rules().target_state(target)
    if state and (state ~= BREAKER.half_open or least > 1) then
      local back = state == BREAKER.open and END.target_breaker .. target or END.lease .. state:sub(2)
      return refuse('empty', (tonumber(call('ZSCORE', DUE, back)) or now) - now, {'target_open', 1})
    end
    if state then probe, n = true, 1 end
  end
end

-- A session stays with its proxy while that may be leased for this target at all.
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
      local number = pace and tonumber(call('ZSCORE', pace, exit) or 0) or 0
      if number <= now + slack + gap then
        since, joined = pinned, call('HEXISTS', JOINT, pin .. '~' .. pinned .. '|' .. id) == 1
        if number - slack > now then return refuse('empty', number - slack - now, {'cooling', 1}) end
        local slots, holders = p[5] == BREAKER.half_open and 1 or tonumber(p[4]), tonumber(p[3]) or 0
        if not joined and holders >= slots then return refuse('empty', 1000, {'session_busy', 1}) end
        picks[1] = {p[1], id, exit, number, held = holders, slots = slots, used = tonumber(p[6]) or 0, sets = p[7], facts = p[8], times = 1}
      end
    end
    -- Later than the last pin even within one millisecond or after a clock jump: `since` is part of the name at a gateway.
    if not picks[1] then moved, excluded[id], since = true, true, math.max(now, pinned + 1) end
  end
end
