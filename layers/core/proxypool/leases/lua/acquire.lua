-- acquire: grants 1..n leases, or none.  O(log n + k): a few draws by rank, then at most BUDGET candidates.
-- ARGV 1 base id (lease ids are base.1 … base.n)  2 owner  3 n  4 least n that will do  5 ttl ms  6 quota, where the pool has none
--   7 journal's greatest length  8 request key, or ''  9 fingerprint of the request  10 ms that the request key is kept
--   11 protocols 'http,socks5'  12 country or '*'  13 least rank of anonymity  14 https '1' or ''  15 kind's letter or ''
--   16 least score (millionths)  17 latency ms at most, 0: any  18 distinct exits '1' or ''  19… excluded proxies
-- Result {'ok' or 'again', {id, proxy, fence, expires, granted, facts}…} · {'rebuilding'} · {'paused'} · {'journal'} · {'conflict'}
--   · {'ended'} (the repeated request's leases are over) · {'quota', held} · {'empty', candidates, filtered, stale, leased, ms to wait}
local BUDGET, CHUNK, DRAWS = 2000, 200, 4
local base, owner, n, least, quota = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])
local pool = call('HMGET', POOL, 'epoch', 'paused', 'owner_quota')

local function refuse(reason, ...)
  call('HINCRBY', REFUSED, reason, 1)
  return {reason, ...}
end
if not pool[1] then return {'rebuilding'} end
if ARGV[8] ~= '' then  -- a repeat finds the leases of the first call, never a second grant (I2)
  local asked = call('HGET', ASKED, ARGV[8])
  if asked then
    local first, count, print = asked:match('^(.-)|(.-)|(.*)$')
    if print ~= ARGV[9] then return refuse('conflict') end
    local out = {'again'}
    for i = 1, tonumber(count) do
      local lease = find(first .. '.' .. i, owner)
      if lease then out[#out + 1] = shown(first .. '.' .. i, lease) end
    end
    return out[2] and out or {'ended'}
  end
end
if pool[2] == '1' then return refuse('paused') end
if call('XLEN', LOG) >= tonumber(ARGV[7]) then return refuse('journal') end
purge(2 * n + 2)
quota = tonumber(pool[3]) or quota
local mine = call('SCARD', HELD .. owner)
if mine + least > quota then return refuse('quota', mine) end
n = math.min(n, quota - mine)

local https, kind, score, latency, distinct = ARGV[14], ARGV[15], tonumber(ARGV[16]), tonumber(ARGV[17]), ARGV[18] ~= ''
local excluded, picks, taken, exits, filtered, stale = {}, {}, {}, {}, 0, 0
for i = 19, #ARGV do excluded[ARGV[i]] = true end

-- The ready sets to draw from, and how many of each are good enough.
local sets, counts, total
local function survey()
  sets, counts, total = {}, {}, 0
  for protocol in ARGV[11]:gmatch('[^,]+') do
    for rank = tonumber(ARGV[13]), 2 do
      local set = P .. 'r:' .. protocol .. ':' .. ARGV[12] .. ':' .. rank
      local count = call('ZCOUNT', set, score, '+inf')
      if count > 0 then sets[#sets + 1], counts[#counts + 1], total = set, count, total + count end
    end
  end
end

-- Takes a member if all rules let it: first what the member says, then the one call for its freshness.
local function take(member)
  local id, exit = member:sub(8, 27), member:sub(28)
  if taken[id] then return end
  if excluded[id] or https ~= '' and member:sub(1, 1) ~= '1' or kind ~= '' and member:sub(2, 2) ~= kind
      or latency > 0 and tonumber(member:sub(3, 7)) > latency or distinct and exits[exit] then
    filtered = filtered + 1
  elseif tonumber(call('HGET', PROXY .. id, 'e')) <= now then
    stale = stale + 1
  else
    picks[#picks + 1], taken[id], exits[exit] = id, true, true
  end
end

-- A uniform rank over all candidates, kept with probability = score: better proxies are drawn more often.
local function draw()
  for _ = 1, DRAWS do
    local rank, at = math.random(0, total - 1), 1
    while rank >= counts[at] do rank, at = rank - counts[at], at + 1 end
    local found = call('ZRANGE', sets[at], rank, rank, 'REV', 'WITHSCORES')
    if math.random(1000000) <= tonumber(found[2]) then return take(found[1]) end
  end
end

-- Nobody is refused while somebody is left: the candidates in turn, up to the budget, from a random rank where there are more.
local function sweep()
  local budget = BUDGET
  filtered, stale = 0, 0
  for i, set in ipairs(sets) do
    local left, at = counts[i], total > BUDGET and math.random(0, counts[i] - 1) or 0
    while left > 0 and budget > 0 and #picks < n do
      local size = math.min(CHUNK, counts[i] - at, left, budget)
      for _, member in ipairs(call('ZRANGE', set, at, at + size - 1, 'REV')) do
        if #picks < n then take(member) end
      end
      at, left, budget = (at + size) % counts[i], left - size, budget - size
    end
  end
end

math.randomseed(tonumber(base:sub(1, 8), 16))  -- unseeded, each server draws one fixed sequence
local back = 10
repeat
  survey()
  for _ = 1, n + DRAWS do
    if #picks < n and total > 0 then draw() end
  end
  if #picks < n then sweep() end
  back = back * 10  -- overdue holders come back 100, 1,000, … at a time
until #picks >= n or purge(back) == 0
if #picks < least then
  local next = tonumber(call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]) or now
  return refuse('empty', total, filtered, stale, call('HLEN', LEASES), next - now)
end

-- All that decides is read; from here on only writes that cannot be refused (an error would not roll them back).
local expires, out = now + ARGV[5], {'ok'}
local fence = call('XADD', LOG, '*', 'g', table.concat({base, owner, now, expires, table.concat(picks, ',')}, '|'))
for i, id in ipairs(picks) do
  local lease = base .. '.' .. i
  call('HSET', LEASES, lease, table.concat({owner, id, now, fence, ''}, '|'))
  call('ZADD', DUE, expires, 'l' .. lease)
  call('SADD', HELD .. owner, lease)
  call('HINCRBY', PROXY .. id, 'h', 1)
  call('HINCRBY', PROXY .. id, 'n', 1)
  place(id)
  out[i + 1] = shown(lease, {owner, id, now, fence, '', expires})
end
if ARGV[8] ~= '' then
  call('HSET', ASKED, ARGV[8], table.concat({base, #picks, ARGV[9]}, '|'))
  call('ZADD', DUE, now + ARGV[10], 'i' .. ARGV[8])
end
return out
