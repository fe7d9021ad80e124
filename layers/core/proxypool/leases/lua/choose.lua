-- The choice of acquire.lua, whose arguments it reads: which proxies fit, in which order they are looked at. It reads only.
-- At most BUDGET candidates are looked at and OVERDUE ends made true before a refusal.  O(log n + k)
local BUDGET, OVERDUE, CHUNK, MISSES, REFUSED_MS = 2000, 1000, 250, 4, 200
local n, how, target, score = tonumber(ARGV[3]), ARGV[16], ARGV[28], tonumber(ARGV[22])
local pool = call('HMGET', POOL, 'epoch', 'paused', 'owner_quota', 'exit_cap', 'rate:*', 'rate:' .. target)

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
    if taken[id] ~= true then
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

-- Takes one that fits, as often as it has slots and this request may use it (a gateway has many); not if its check is too old.
-- One with slots left may be met again. An exit's room is looked at again: others of the window may leave by the same.
local function take_one(g, want)
  local id, exit = g[2], g[3]
  if taken[id] then g = taken[id] else
    local p = call('HMGET', PROXY .. id, 'e', 'h', 'c', 'b', 'n', 'z', 'j')
    if not has_room(p[1], tonumber(p[2]) or 0, p[3], p[4]) then return count('stale') end
    g.held, g.slots, g.used = tonumber(p[2]) or 0, p[4] == 'h' and 1 or tonumber(p[3]), tonumber(p[5]) or 0
    g.sets, g.facts, g.times = p[6], p[7], 0
  end
  repeat
    picks[#picks + 1], exits[exit], g.times = g, exit ~= '' and (exits[exit] or 0) + 1 or nil, g.times + 1
    want = want - 1
  until want == 0 or once or g.held + g.times >= g.slots or (exits[exit] or 0) >= g[5]
  taken[id] = not once and g.held + g.times < g.slots and g or true
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

-- One draw of the strategy: takes up to `want` from windows of `width`; returns how many.
local from = 0
local draw
if how == 'weighted' then
  draw = function(width, want)  -- a uniform rank, kept with probability = score
    local found
    for _ = 1, 4 do
      local set, size, rank = spot()
      found = window(set, size, rank, width)
      if math.random(1000000000) <= tonumber(found[2]) then break end
    end
    return take(fit(found, 2), want)
  end
elseif how == 'random' then
  draw = function(width, want)
    local set, size, rank = spot()
    return take(fit(window(set, size, rank, width), 2), want)
  end
elseif how == 'best' then
  draw = function(width)  -- the heads of all sets, merged; the next draw takes the ranks below
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
  end
elseif how == 'least_used' then
  draw = function(width)  -- the least used of two windows: near the exact rule (the power of two choices), exact in small sets
    width = math.max(width, 8)
    local least_used, best = math.huge, nil
    for _ = 1, 2 do
      local set, size, rank = spot()
      for _, g in ipairs(fit(window(set, size, math.max(0, math.min(rank, size - width)), width), 2)) do
        local used = tonumber(call('HGET', PROXY .. g[2], 'n') or 0)
        if used < least_used then least_used, best = used, g end
      end
    end
    return take({best}, 1)
  end
elseif how == 'round_robin' then
  draw = function(width)  -- the cursor is a score: exact where scores differ
    local set, size = spot()
    local cursor = call('HGET', P .. 'rr', set) or 'inf'
    local found = call('ZRANGE', set, '(' .. cursor, score, 'BYSCORE', 'REV', 'LIMIT', 0, width, 'WITHSCORES')
    if not found[1] then found = window(set, size, 0, width) end
    local got = take(fit(found, 2), 1)
    call('HSET', P .. 'rr', set, got > 0 and picks[#picks][6] or found[#found])
    return got
  end
end

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

-- A refusal is remembered for a moment. Its instant is compared from both sides: a clock may jump back.
local memo = ARGV[12] ~= '' and P .. 'memo:' .. ARGV[12]
local function remembered()
  local told = memo and call('GET', memo)
  if not told then return nil end
  local till, wait, reasons = told:match('^(%d+)|(%d+)|(.*)$')
  return now < tonumber(till) and tonumber(till) <= now + REFUSED_MS and {tonumber(wait), unpack(cjson.decode(reasons))} or nil
end

-- Fills `picks`; returns the refusal of a moment ago where the first draw misses and there is one.
local function choose()
  local narrow = not plain or n > 1 or pace or https or kind ~= '' or latency > 0 or exit_cap > 0 or how ~= 'weighted'
  local most = math.ceil(n / 16)  -- a large batch takes up to 4 neighbours a draw
  local overdue, told = 100, nil
  repeat
    survey()
    local width, misses = narrow and 4 or 1, 0
    while #picks < n and total > 0 and misses < MISSES and not told do
      if draw(width, math.min(most, n - #picks)) == 0 then
        misses, width = misses + 1, width * 4
        told = #picks == 0 and remembered()
      end
    end
    if total == 0 then told = remembered() end
    if told then return told end
    if #picks < n then
      seen = {}
      sweep()
    end
    local ended = #picks < n and overdue <= OVERDUE and purge(overdue) + freshen(overdue) or 0
    overdue, from = overdue * 10, 0
  until #picks >= n or ended == 0
end
