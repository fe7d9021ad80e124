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
local BUDGET, OVERDUE, CHUNK, MISSES, REFUSED_MS = 2000, 1000, 250, 4, 200
local base, owner, n, least, quota = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])
local session, how, target, score = ARGV[13], ARGV[16], ARGV[28], tonumber(ARGV[22])
local pool = call('HMGET', POOL, 'epoch', 'paused', 'owner_quota', 'exit_cap', 'rate:*', 'rate:' .. target)

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
purge(2 * n + 2)
quota = tonumber(pool[3]) or quota
local mine = call('SCARD', HELD .. owner)
if mine + least > quota then return refuse('quota', mine) end
n = math.min(n, quota - mine)

-- A target whose breaker is open lets nobody through, half-open one probe.
local probe = false
if target ~= '' then
  local state = call('HGET', TARGETS, target)
  if state and (state ~= 'h' or least > 1) then
    local back = state == 'o' and 'q' .. target or 'l' .. state:sub(2)
    return empty((tonumber(call('ZSCORE', DUE, back)) or now) - now, 'target_open', 1)
  end
  if state then probe, n = true, 1 end
end

-- The same refusal a moment later costs one call. Its instant is compared from both sides: a clock may jump back.
local memo = ARGV[12] ~= '' and P .. 'memo:' .. ARGV[12]
local told = memo and call('GET', memo)
if told then
  local till, wait, reasons = told:match('^(%d+)|(%d+)|(.*)$')
  if now < tonumber(till) and tonumber(till) <= now + REFUSED_MS then return empty(tonumber(wait), unpack(cjson.decode(reasons))) end
end

-- The rules. First what the member says; then one call per rule of the moment for a whole window.
local pace = target ~= '' and PACE .. target
local gap, burst = (pace and (pool[6] or pool[5]) or '0 1'):match('^(%d+) (%d+)$')
gap = tonumber(gap)
local slack, exit_cap = (burst - 1) * gap, tonumber(pool[4]) or 0
local https, kind, latency, region, ipv4, source = ARGV[20] ~= '', ARGV[21], tonumber(ARGV[23]), ARGV[24], ARGV[25] ~= '', ARGV[26]
local once = ARGV[27] ~= '' or gap > 0  -- one lease per exit within this request
local tags, excluded = {}, {}
for i = 30, #ARGV do
  if i < 30 + ARGV[29] then tags[#tags + 1] = ',' .. ARGV[i] .. ',' else excluded[ARGV[i]] = true end
end
local plain = region == '' and not ipv4 and source == '' and not tags[1]
local picks, taken, exits, seen, soonest = {}, {}, {}, {}, now + 60000

local function suits(member, id)
  if excluded[id] or https and member:byte(1) ~= 49 or kind ~= '' and member:sub(2, 2) ~= kind
      or latency > 0 and tonumber(member:sub(3, 7)) > latency then return false end
  if plain then return true end
  local exit, place_, own, from = member:match('^([^|]*)|([^|]*)|([^|]*)|(.*)$', 28)
  if ipv4 and not exit:find('^%d+%.') or region ~= '' and place_ ~= region
      or source ~= '' and not from:find(',' .. source .. ',', 1, true) then return false end
  for _, tag in ipairs(tags) do
    if not own:find(tag, 1, true) then return false end
  end
  return true
end
local function count(reason, of) seen[reason] = (seen[reason] or 0) + (of or 1) end

-- Those of a window that may be granted: {member, id, exit, number of (exit, target), room of the exit, score}.
local function fit(window, step)
  local good, ex = {}, {}
  for i = 1, #window, step do
    local member = window[i]
    local id = member:sub(8, 27)
    if not taken[id] then
      if suits(member, id) then
        local exit = member:match('^[^|]*', 28)
        good[#good + 1], ex[#ex + 1] = {member, id, exit, 0, math.huge, window[i + 1]}, exit
      else
        count('filtered')
      end
    end
  end
  if not good[1] or not (pace or exit_cap > 0 or once) then return good end
  local paced, busy, free = pace and call('ZMSCORE', pace, unpack(ex)), exit_cap > 0 and call('HMGET', EXITS, unpack(ex)), {}
  for i, g in ipairs(good) do
    local exit = g[3]
    g[4] = paced and tonumber(paced[i] or 0) or 0
    if busy and exit ~= '' then g[5] = exit_cap - (tonumber(busy[i] or 0)) end
    if g[4] - slack > now then
      count('cooling')
      soonest = math.min(soonest, g[4] - slack)
    elseif g[5] <= (exits[exit] or 0) or once and exits[exit] then
      count('exit_busy')
    else
      free[#free + 1] = g
    end
  end
  return free
end

-- Takes one that fits, as often as it has slots and this request may use it (a gateway has many); false if its check is too
-- old. An exit's room is looked at again: others of the window may leave by the same.
local function take_one(g, want)
  local id, exit = g[2], g[3]
  local p = call('HMGET', PROXY .. id, 'e', 'h', 'c', 'b', 'n', 'z', 'j')
  if not has_room(p[1], tonumber(p[2]) or 0, p[3], p[4]) then
    count('stale')
    return
  end
  taken[id] = true
  g.held, g.slots, g.used = tonumber(p[2]) or 0, p[4] == 'h' and 1 or tonumber(p[3]), tonumber(p[5]) or 0
  g.sets, g.facts, g.times = p[6], p[7], 0
  repeat
    picks[#picks + 1], exits[exit], g.times = g, exit ~= '' and (exits[exit] or 0) + 1 or nil, g.times + 1
    want = want - 1
  until want == 0 or once or g.held + g.times >= g.slots or (exits[exit] or 0) >= g[5]
end
local function take(good, want)
  local before = #picks
  for _, g in ipairs(good) do
    if #picks - before >= want then break end
    local used = exits[g[3]] or 0
    if used == 0 or not once and used < g[5] then take_one(g, want - (#picks - before)) end
  end
  return #picks - before
end

-- The ready sets to draw from, and how many of each are good enough.
local sets, counts, total
local function survey()
  sets, counts, total = {}, {}, 0
  for protocol in ARGV[17]:gmatch('[^,]+') do
    for rank = ARGV[19], 2 do
      local set = P .. 'r:' .. protocol .. ':' .. ARGV[18] .. ':' .. rank
      local size = score > 0 and call('ZCOUNT', set, score, '+inf') or call('ZCARD', set)
      if size > 0 then sets[#sets + 1], counts[#counts + 1], total = set, size, total + size end
    end
  end
end
local function window(set, size, rank, width) return call('ZRANGE', set, rank, math.min(rank + width, size) - 1, 'REV', 'WITHSCORES') end
local function spot()  -- a set, its size and a rank in it, uniform over all candidates
  local rank = math.random(0, total - 1)
  for i, size in ipairs(counts) do
    if rank < size then return sets[i], size, rank end
    rank = rank - size
  end
end

-- One draw of each strategy: takes up to `want` from windows of `width`; returns how many.
local from = 0
local draws = {
  weighted = function(width, want)  -- a uniform rank, kept with probability = score
    local found
    for _ = 1, 4 do
      local set, size, rank = spot()
      found = window(set, size, rank, width)
      if math.random(1000000000) <= tonumber(found[2]) then break end
    end
    return take(fit(found, 2), want)
  end,
  random = function(width, want)
    local set, size, rank = spot()
    return take(fit(window(set, size, rank, width), 2), want)
  end,
  best = function(width)  -- the heads of all sets, merged; the next draw takes the ranks below
    local heads = {}
    width = math.max(width, n)
    for i, set in ipairs(sets) do
      if from < counts[i] then
        for _, g in ipairs(fit(window(set, counts[i], from, width), 2)) do heads[#heads + 1] = g end
      end
    end
    from = from + width
    if sets[2] then table.sort(heads, function(a, b) return tonumber(a[6]) > tonumber(b[6]) end) end
    return take(heads, n - #picks)
  end,
  least_used = function(width)  -- the least used of two windows: near the exact rule (the power of two choices)
    local least_used, best = math.huge, nil
    for _ = 1, 2 do
      local set, size, rank = spot()
      for _, g in ipairs(fit(window(set, size, math.max(0, math.min(rank, size - width)), width), 2)) do
        local used = tonumber(call('HGET', PROXY .. g[2], 'n') or 0)
        if used < least_used then least_used, best = used, g end
      end
    end
    return take({best}, 1)
  end,
  round_robin = function(width)  -- the cursor is a score: exact where scores differ
    local set, size = spot()
    local cursor = call('HGET', P .. 'rr', set) or 'inf'
    local found = call('ZRANGE', set, '(' .. cursor, score, 'BYSCORE', 'REV', 'LIMIT', 0, width, 'WITHSCORES')
    if not found[1] then found = window(set, size, 0, width) end
    local got = take(fit(found, 2), 1)
    call('HSET', P .. 'rr', set, got > 0 and picks[#picks][6] or found[#found])
    return got
  end,
}

-- Nobody is refused while somebody is left: the candidates in turn, up to the budget, from a random rank where there are more.
local function sweep()
  local budget = BUDGET
  for i, set in ipairs(sets) do
    local left, at = counts[i], total > BUDGET and math.random(0, counts[i] - 1) or 0
    while left > 0 and budget > 0 and #picks < n do
      local width = math.min(CHUNK, counts[i] - at, left, budget)
      take(fit(call('ZRANGE', set, at, at + width - 1, 'REV'), 1), n - #picks)
      at, left, budget = (at + width) % counts[i], left - width, budget - width
    end
  end
end
local function choose()
  local narrow = not plain or n > 1 or pace or https or kind ~= '' or latency > 0 or exit_cap > 0 or how ~= 'weighted'
  local most = math.ceil(n / 16)  -- a large batch takes up to 4 neighbours a draw
  local overdue, round = 100, 0
  repeat
    survey()
    local width, misses = narrow and 4 or 1, 0
    while #picks < n and total > 0 and misses < MISSES do
      if draws[how](width, math.min(most, n - #picks)) == 0 then misses, width = misses + 1, width * 4 end
    end
    if #picks < n then
      seen = {}
      sweep()
    end
    local ended = #picks < n and overdue <= OVERDUE and purge(overdue) + freshen(overdue) or 0
    overdue, from = overdue * 10, 0
  until #picks >= n or ended == 0
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
if not picks[1] then choose() end
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
