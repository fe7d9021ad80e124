#!lua
-- acquire: grants 1..n leases, or none.  O(log n + k): a few draws by rank, then at most BUDGET candidates and OVERDUE ends.
-- ARGV 1 base id (lease ids are base.1 … base.n)  2 owner  3 n  4 least n that will do  5 ttl ms  6 quota, where the pool has none
--   7 journal's greatest length  8 request key, or ''  9 fingerprint of the request  10 ms that the request key is kept
--   11 '1': this base may have been sent before  12 hash of target and filters, or ''  13 session or ''  14 ms that a pin
--   slides  15 ms that it lives at most  16 strategy  17 protocols 'http,socks5'  18 country or '*'  19 least rank of anonymity
--   20 https '1' or ''  21 kind's letter or ''  22 least score (billionths)  23 latency ms at most, 0: any  24 region or ''
--   25 IPv4 exits '1' or ''  26 source or ''  27 distinct exits '1' or ''  28 target or ''  29 how many tags follow
--   30… tags, then excluded proxies
-- Result {'ok', 'moved' (the session left its proxy) or 'again', {id, proxy, fence, expires, granted, facts, session}…}
--   · {'rebuilding'} · {'paused'} · {'journal'} · {'conflict'} · {'ended'} (the repeated request's leases are over)
--   · {'quota', held} · {'empty', ms to wait, {reason, n…}}
local base, owner, least, quota, session = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[6]), ARGV[13]

local function refuse(reason, ...)
  call('HINCRBY', REFUSED, reason, 1)
  return {reason, ...}
end
local function empty(wait, ...)
  return refuse('empty', math.max(0, wait), {...})
end
if not pool[1] then return {'rebuilding'} end

-- A repeat finds the leases of the first call, never a second grant (I2): by its key, or by its base id where the answer
-- was lost. A base that came twice is kept as a key, so that the first call does nothing when it comes late.
local function repeated(first, count)
  local out = {'again'}
  for i = 1, count do
    local id = first .. '.' .. i
    local lease = find(id, owner)
    if lease then out[#out + 1] = shown(id, lease) end
  end
  return out[2] and out or {'ended'}
end
for _, asked in ipairs(call('HMGET', ASKED, base, ARGV[8])) do
  if asked then
    local first, count, print = asked:match('^(.-)|(.-)|(.*)$')
    if print ~= ARGV[9] then return refuse('conflict') end
    return repeated(first, tonumber(count))
  end
end
if ARGV[11] == '1' and call('HEXISTS', LEASES, base .. '.1') == 1 then return repeated(base, n) end
if pool[2] == '1' then return refuse('paused') end
if call('XLEN', LOG) >= tonumber(ARGV[7]) then return refuse('journal') end
local behind = purge(2 * n + 2) == 2 * n + 2
quota = tonumber(pool[3]) or quota
local mine = call('SCARD', HELD .. owner)
if behind and (mine + n > quota or session ~= '') then  -- what is overdue decides here: it must not count any more
  purge(OVERDUE)
  mine = call('SCARD', HELD .. owner)
end
if mine + least > quota then return refuse('quota', mine) end
n = math.min(n, quota - mine)

-- A target whose breaker is open lets nobody through, half-open one probe.
local probe = false
if target ~= '' then
  local state = target_state(target)
  if state and (state ~= 'h' or least > 1) then
    local back = state == 'o' and 'q' .. target or 'l' .. state:sub(2)
    return empty((tonumber(call('ZSCORE', DUE, back)) or now) - now, 'target_open', 1)
  end
  if state then probe, n = true, 1 end
end

-- A session stays with its proxy while that may be leased for this target at all.
local pin = session ~= '' and owner .. '|' .. session
local joined, moved, since = false, false, now
local function follow()
  local at = call('HGET', PINS, pin)
  if not at then return end
  local id, first = at:match('^(.-)|(.*)$')
  if first + ARGV[15] <= now then return end
  local p = call('HMGET', PROXY .. id, 'm', 'e', 'h', 'c', 'b', 'n', 'z', 'j')
  local held = tonumber(p[3]) or 0
  if p[1] and p[5] ~= 'o' and tonumber(p[2]) > now then
    local exit = p[1]:match('^[^|]*', 28)
    local number = pace and tonumber(call('ZSCORE', pace, exit) or 0) or 0
    if number <= now + slack + gap then
      since, joined = first, call('HEXISTS', JOINT, pin .. '|' .. id) == 1
      if number - slack > now then return empty(number - slack - now, 'cooling', 1) end
      local slots = p[5] == 'h' and 1 or tonumber(p[4])
      if not joined and held >= slots then return empty(1000, 'session_busy', 1) end
      picks[1] = {p[1], id, exit, number, held = held, slots = slots, used = tonumber(p[6]) or 0, sets = p[7], facts = p[8], times = 1}
      return
    end
  end
  moved, excluded[id] = true, true
end

math.randomseed(tonumber(base:sub(1, 8), 16))  -- unseeded, each server draws one fixed sequence
local refused = pin and follow()
if refused then return refused end
local told = not picks[1] and choose()
if told then return empty(unpack(told)) end
if #picks < least then
  local reasons = {'candidates', total, 'leased', call('HLEN', LEASES)}
  for reason, of in pairs(seen) do reasons[#reasons + 1], reasons[#reasons + 2] = reason, of end
  soonest = math.min(soonest, tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]) or soonest)
  local wait = math.max(0, soonest - now)
  if memo then
    call('SET', memo, now + REFUSED_MS .. '|' .. wait .. '|' .. cjson.encode(reasons), 'PX', REFUSED_MS)
  end
  return empty(wait, unpack(reasons))
end

-- All that decides is read; from here on only writes that cannot be refused (an error would not roll them back).
local expires, out, ids = now + ARGV[5], {moved and 'moved' or 'ok'}, {}
for i, g in ipairs(picks) do ids[i] = g[2] end
local fence = call('XADD', LOG, '*', 'g', table.concat({base, owner, target, now, expires, table.concat(ids, ',')}, '|'))
local records, due, gone, uses = {}, {}, {}, {}
for i, g in ipairs(picks) do
  local id = g[2]
  ids[i] = base .. '.' .. i
  records[2 * i - 1], records[2 * i] = ids[i], table.concat({owner, id, g[3], target, now, fence, session, ''}, '|')
  due[2 * i - 1], due[2 * i] = expires, 'l' .. ids[i]
  out[i + 1] = {ids[i], id, fence, expires, now, g.facts, session}
  if not joined then
    if g[3] ~= '' then call('HINCRBY', EXITS, g[3], 1) end
    if g.times then  -- once for each proxy, however many of its slots
      call('HSET', PROXY .. id, 'h', g.held + g.times, 'n', g.used + g.times)
      if g.held + g.times >= g.slots then
        for set in g.sets:gmatch('%S+') do
          if not gone[set] then gone[set] = {} end
          gone[set][#gone[set] + 1] = g[1]
        end
      end
      g.times = nil
    end
  end
  if gap > 0 and g[3] ~= '' then uses[#uses + 1], uses[#uses + 2] = math.max(g[4], now) + gap, g[3] end
end
for set, members in pairs(gone) do call('ZREM', P .. set, unpack(members)) end
call('HSET', LEASES, unpack(records))
call('ZADD', DUE, unpack(due))
call('SADD', HELD .. owner, unpack(ids))
if uses[1] then
  call('ZADD', pace, unpack(uses))
  call('ZADD', DUE, 'NX', now + TIDY_MS, 'p' .. target)
end
if probe then call('HSET', TARGETS, target, 'h' .. ids[1]) end
if pin then
  call('HINCRBY', JOINT, pin .. '|' .. picks[1][2], 1)
  call('HSET', PINS, pin, picks[1][2] .. '|' .. since)
  call('ZADD', DUE, math.min(now + ARGV[14], since + ARGV[15]), 's' .. pin)
end
for _, key in ipairs({ARGV[8], ARGV[11] == '1' and base or ''}) do
  if key ~= '' then
    call('HSET', ASKED, key, table.concat({base, #picks, ARGV[9]}, '|'))
    call('ZADD', DUE, now + ARGV[10], 'i' .. key)
  end
end
return out
