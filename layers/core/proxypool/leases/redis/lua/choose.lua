-- The second part of acquire: selects proxies in the order of the strategy. Fills `picks`, or refuses. It writes nothing but the
-- ends of expired things. A refusal comes after at most BUDGET candidates and OVERDUE ends.
local BUDGET, CHUNK, MISSES, REFUSED_MS = 2000, 250, 4, 200
local how, score = ARG.strategy, tonumber(ARG.min_score)
local exit_cap, once = tonumber(pool[4]) or 0, ARG.distinct_exit ~= '' or gap > 0  -- one lease per exit within this request
local wanted = picks[1] and 0 or n  -- a session that stays has its proxy
local taken, exits, seen, soonest = {}, {}, {}, now + 60000

local first_excluded = AT.rest + ARG.need_count
for i = first_excluded, #ARGV do excluded[ARGV[i]] = true end

-- Whether a member meets the conditions of leases/filters.py: '|rby|' must be among its values, 'l50' limits the number with
-- key l. A value that is missing, since the member has an older layout, meets no condition.
local suits
if ARG.need_count ~= '0' then
  local values, limits = {}, {}
  for i = AT.rest, first_excluded - 1 do
    local need = ARGV[i]
    if need:sub(1, 1) == '|' then values[#values + 1] = need
    else limits['|' .. need:sub(1, 1) .. '(%d+)'] = tonumber(need:sub(2)) end
  end
  suits = function(member)
    for _, value in ipairs(values) do
      if not member:find(value, MEMBER.exit, true) then return false end
    end
    for pattern, limit in pairs(limits) do
      local number = member:match(pattern, MEMBER.exit)
      if not number or tonumber(number) > limit then return false end
    end
    return true
  end
end

-- The candidates of a window that can be granted: {member, id, exit, not before (ms), room of the exit, score}. The member's
-- text is tested first; the rate of the target and the cap of the exit take one call each for the whole window.
local function fit(window, step)
  local good, ex = {}, {}
  for i = 1, #window, step do
    local member = window[i]
    local id = member:sub(MEMBER.id, MEMBER.id_end)
    if taken[id] ~= true then
      if excluded[id] or member:byte(1) ~= MEMBER.head or suits and not suits(member) then
        seen.filtered = (seen.filtered or 0) + 1
      else
        local exit = member:match('^[^|]*', MEMBER.exit)
        good[#good + 1], ex[#ex + 1] = {member, id, exit, 0, math.huge, window[i + 1]}, exit
      end
    end
  end
  if not good[1] or not (paced_by or exit_cap > 0 or once) then return good end
  local paced, busy, free = paced_by and call('ZMSCORE', paced_by, unpack(ex)), exit_cap > 0 and call('HMGET', EXITS, unpack(ex)), {}
  for i, g in ipairs(good) do
    local exit = g[3]
    g[4] = paced and tonumber(paced[i] or 0) or 0
    if busy and exit ~= '' then g[5] = exit_cap - (tonumber(busy[i] or 0)) end
    if g[4] - slack > now then
      seen.cooling = (seen.cooling or 0) + 1
      soonest = math.min(soonest, g[4] - slack)
    elseif g[5] <= (exits[exit] or 0) or once and exits[exit] then
      seen.exit_busy = (seen.exit_busy or 0) + 1
    else
      free[#free + 1] = g
    end
  end
  return free
end

-- Takes up to `want` candidates that fit, and each as often as it has free slots (a gateway has many) and the request allows;
-- none whose check is too old. A proxy with slots left can be taken again later. The room of an exit is tested again, since
-- others of the window may have the same exit. Returns how many were taken.
local function take(good, want)
  local before = #picks
  for _, g in ipairs(good) do
    local left, id, exit = want - (#picks - before), g[2], g[3]
    if left <= 0 then break end
    local used = exits[exit] or 0
    if used == 0 or not once and used < g[5] then
      if taken[id] then
        g = taken[id]
      else
        local p = call('HMGET', PROXY .. id, F.fresh_until, F.holders, F.slots, F.breaker, F.grants, F.sets, F.facts)
        g.held, g.slots, g.used = tonumber(p[2] or 0), p[4] == BREAKER.half_open and 1 or tonumber(p[3]), tonumber(p[5] or 0)
        g.sets, g.facts, g.times = p[6], p[7], 0
        if not has_room(p[1], g.held, p[3], p[4]) then
          seen.stale, g = (seen.stale or 0) + 1, nil
        end
      end
      if g then
        repeat
          picks[#picks + 1], exits[exit], g.times = g, exit ~= '' and (exits[exit] or 0) + 1 or nil, g.times + 1
          left = left - 1
        until left == 0 or once or g.held + g.times >= g.slots or (exits[exit] or 0) >= g[5]
        taken[id] = not once and g.held + g.times < g.slots and g or true
      end
    end
  end
  return #picks - before
end

local function window(set, size, rank, width)
  return call('ZRANGE', set, rank, math.min(rank + width, size) - 1, 'REV', 'WITHSCORES')
end

-- A set, the number of its members with the required score, and a rank among these; uniform over all candidates.
local sets, counts, total
local function spot()
  local rank = math.random(0, total - 1)
  for i, size in ipairs(counts) do
    if rank < size then return sets[i], size, rank end
    rank = rank - size
  end
end

-- One draw of the strategy: takes up to `want` candidates from windows of `width`; returns how many.
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
  draw = function(width)  -- the best of all sets, merged; the next draw takes the ranks below
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
        local used = tonumber(call('HGET', PROXY .. g[2], F.grants) or 0)
        if used < least_used then least_used, best = used, g end
      end
    end
    return take({best}, 1)
  end
elseif how == 'round_robin' then
  draw = function(width)  -- the cursor is a score: exact where scores differ
    local set, size = spot()
    local cursor = call('HGET', P .. KEY.cursors, set) or 'inf'
    local found = call('ZRANGE', set, '(' .. cursor, score, 'BYSCORE', 'REV', 'LIMIT', 0, width, 'WITHSCORES')
    if not found[1] then found = window(set, size, 0, width) end
    local got = take(fit(found, 2), 1)
    call('HSET', P .. KEY.cursors, set, got > 0 and picks[#picks][6] or found[#found])
    return got
  end
end

local memo = ARG.memo ~= '' and P .. KEY.refusal_memory .. ARG.memo
local narrow = suits or n > 1 or paced_by or exit_cap > 0 or how ~= 'weighted'
local max_per_draw, overdue, ended = math.ceil(n / 16), 100, 0  -- a large batch takes up to 4 neighbours per draw
math.randomseed(tonumber(base:sub(1, 8), 16))  -- unseeded, each server draws one fixed sequence
repeat
  sets, counts, total = {}, {}, 0
  for name in ARG.ready_sets:gmatch('%S+') do
    local set = P .. name
    local size = score > 0 and call('ZCOUNT', set, score, '+inf') or call('ZCARD', set)
    if size > 0 then sets[#sets + 1], counts[#counts + 1], total = set, size, total + size end
  end
  local width, misses = narrow and 4 or 1, 0
  while #picks < wanted and misses < MISSES do
    if total == 0 then
      misses = MISSES
    elseif draw(width, math.min(max_per_draw, wanted - #picks)) == 0 then
      misses, width = misses + 1, width * 4
    end
    -- A refusal is remembered for REFUSED_MS. Its end is compared with both limits, since a clock may jump back.
    local remembered = misses > 0 and not picks[1] and memo and call('GET', memo)
    if remembered then
      local till, wait, reasons = remembered:match('^(%d+)|(%d+)|(.*)$')
      if now < tonumber(till) and tonumber(till) <= now + REFUSED_MS then
        return refuse('empty', tonumber(wait), cjson.decode(reasons))
      end
    end
  end
  -- Before a refusal all candidates are tested, up to the budget; from a random rank if there are more.
  if #picks < wanted then
    seen = {}
    local budget = BUDGET
    for i, set in ipairs(sets) do
      local left, rank = counts[i], total > BUDGET and math.random(0, counts[i] - 1) or 0
      while left > 0 and budget > 0 and #picks < wanted do
        local width = math.min(CHUNK, counts[i] - rank, left, budget)
        take(fit(call('ZRANGE', set, rank, rank + width - 1, 'REV'), 1), wanted - #picks)
        rank, left, budget = (rank + width) % counts[i], left - width, budget - width
      end
    end
  end
  ended = #picks < wanted and overdue <= OVERDUE and purge(overdue) + rules().freshen(overdue) or 0
  overdue, from = overdue * 10, 0
until #picks >= wanted or ended == 0

if #picks < least then
  local reasons = {'candidates', total, 'leased', call('HLEN', LEASES)}
  for reason, number in pairs(seen) do reasons[#reasons + 1], reasons[#reasons + 2] = reason, number end
  soonest = math.min(soonest, tonumber(call('ZRANGE', EXPIRIES, 0, 0, 'WITHSCORES')[2]) or soonest)
  local wait = math.max(0, soonest - now)
  if memo then
    call('SET', memo, now + REFUSED_MS .. '|' .. wait .. '|' .. cjson.encode(reasons), 'PX', REFUSED_MS)
  end
  return refuse('empty', wait, reasons)
end
