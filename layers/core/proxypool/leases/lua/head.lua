-- The shared head: the caller sends "#!lua", this text and a script as one (a serverless cache has no FUNCTION).
-- KEYS[1] is the pool's hash tag; leases/keys.py explains every key. Times are whole milliseconds of the server's clock:
-- 13 digits, since `..` keeps 14.
local P, call = KEYS[1] .. ':', redis.call
local POOL, PROXY, FRESH, LEASES, DUE = P .. 'pool', P .. 'p:', P .. 'fresh', P .. 'leases', P .. 'due'
local HELD, ASKED, REFUSED, LOG = P .. 'held:', P .. 'asked', P .. 'refused', P .. 'log'
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- Out of the ready sets.
local function pull(member, sets)
  for set in sets:gmatch('%S+') do call('ZREM', P .. set, member) end
end

-- Whether a proxy stands in the ready sets: it has facts, its check is fresh, nobody holds it. The only place that decides.  O(log n)
local function place(id)
  local p = call('HMGET', PROXY .. id, 'm', 's', 'z', 'e', 'h')
  local held = (tonumber(p[5]) or 0) > 0
  if not p[1] then
    if not held then call('HDEL', PROXY .. id, 'j', 'h', 'n') end  -- removed: its URL goes with the last holder
  elseif held or tonumber(p[4]) <= now then pull(p[1], p[3])
  else
    for set in p[3]:gmatch('%S+') do call('ZADD', P .. set, p[2], p[1]) end
  end
end

-- A live lease of this owner: owner, proxy, granted, fence, outcome, expires; nil for unknown, foreign and overdue alike.
local function find(id, owner)
  local record, ends = call('HGET', LEASES, id), tonumber(call('ZSCORE', DUE, 'l' .. id) or 0)
  if not record or ends <= now then return nil end
  local who, proxy, granted, fence, outcome = record:match('^(.-)|(.-)|(.-)|(.-)|(.*)$')
  if who ~= owner then return nil end
  return {who, proxy, granted, fence, outcome, ends}
end

-- Writes down what happened to a lease.
local function journal(kind, id, lease)
  return call('XADD', LOG, '*', kind, table.concat({id, lease[1], lease[2], lease[3], lease[6], lease[5]}, '|'))
end

-- What a lease answer is made of.
local function shown(id, lease)
  return {id, lease[2], lease[4], lease[6], lease[3], call('HGET', PROXY .. lease[2], 'j')}
end

-- Ends a lease: the holder and the owner's quota come back.  O(log n)
local function finish(kind, id, lease)
  call('ZREM', DUE, 'l' .. id)
  call('HDEL', LEASES, id)
  call('SREM', HELD .. lease[1], id)
  call('HINCRBY', PROXY .. lease[2], 'h', -1)
  place(lease[2])
  journal(kind, id, lease)
end

-- Ends at most n overdue things and takes at most n stale proxies out; returns how many, and how many of them were leases.
local function purge(n)
  local due, ended = call('ZRANGE', DUE, '-inf', now, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES'), 0
  for i = 1, #due, 2 do
    local kind, id = due[i]:sub(1, 1), due[i]:sub(2)
    if kind == 'l' then
      local who, proxy, granted, fence, outcome = call('HGET', LEASES, id):match('^(.-)|(.-)|(.-)|(.-)|(.*)$')
      finish('x', id, {who, proxy, granted, fence, outcome, tonumber(due[i + 1])})
      ended = ended + 1
    else
      call('ZREM', DUE, due[i])
      call('HDEL', ASKED, id)
    end
  end
  local stale = call('ZRANGE', FRESH, '-inf', now, 'BYSCORE', 'LIMIT', 0, n)
  for _, id in ipairs(stale) do
    call('ZREM', FRESH, id)
    place(id)
  end
  return #due / 2 + #stale, ended
end
