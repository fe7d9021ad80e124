#!lua flags=allow-oom
-- tell: what a holder found (report), and the end of the leases if asked (release).  O(log n) each
-- ARGV 1 owner  2 outcome or ''  3 '1' to end them  4 ms that (exit, target) cools, 0: not  5 of the proxy: 'f' it failed, 'p' it
--   carried the request, ''  6 of the target: 'f' it failed, 'a' it answered, ''  7 failures that open a breaker, where the pool
--   says none  8 ms it stays open, likewise  9… lease ids
-- Result {1 or 0 for unknown, foreign, expired and released, per id}
local r = rules()
local owner, outcome, ends, cool, proxy_did, target_did = ARGV[1], ARGV[2], ARGV[3] == '1', tonumber(ARGV[4]), ARGV[5], ARGV[6]
local pool = outcome ~= '' and call('HMGET', POOL, 'breaker_failures', 'breaker_ms') or {}
local failures, open_ms = tonumber(pool[1] or ARGV[7]), tonumber(pool[2] or ARGV[8])

local excused = {}  -- journal entries that take a failure back; they come behind the failure's own

-- Opens a target's breaker; what it made other proxies look guilty of is taken back.
local function open_target(target, fails, lease)
  call('HSET', TARGETS, target, 'o')
  call('ZADD', DUE, now + open_ms, 'q' .. target)
  for i = 1, #fails, 2 do
    local id = fails[i]
    if fails[i + 1]:sub(-1) == 'b' and not (proxy_did == 'f' and id == lease[2]) then
      excused[#excused + 1] = table.concat({'', owner, id, target, now, now, ''}, '|')
      if tonumber(call('HGET', PROXY .. id, 'f') or 0) > 0 then call('HINCRBY', PROXY .. id, 'f', -1) end
    end
  end
end

-- The target's breaker; returns whether a failure of the proxy is none of its own. A timeout counts once per proxy (it may
-- be the proxy's fault), what the target did once per lease.
local function judge_target(id, lease)
  local target = lease[4]
  local state = r.target_state(target)
  if target_did == 'a' then
    call('DEL', FAILS .. target)
    if state and (state == 'h' .. id or state == 'h') then call('HDEL', TARGETS, target) end
  elseif target_did == 'f' then
    if state then
      if state == 'h' .. id then open_target(target, {}, lease) end
      return true
    end
    call('HSET', FAILS .. target, proxy_did == 'f' and lease[2] or id, now .. (proxy_did == 'f' and 'b' or ''))
    r.tidy(target)
    if call('HLEN', FAILS .. target) >= failures then
      open_target(target, call('HGETALL', FAILS .. target), lease)
      return true
    end
  end
end

-- The proxy's breaker: a failed probe opens it again at once.
local function judge_proxy(id)
  local key = PROXY .. id
  if proxy_did == 'p' then
    if call('HDEL', key, 'f', 'b') > 0 then r.place(id) end
  elseif call('HINCRBY', key, 'f', 1) >= failures or call('HGET', key, 'b') == 'h' then
    call('HSET', key, 'b', 'o')
    call('ZADD', DUE, now + open_ms, 'b' .. id)
    r.place(id)
  end
end

-- A gateway gives each session a name, and each name an exit: one that is banned leaves its proxy, so that the next acquire
-- moves it and gives it another name. What was leased before it moved moves it no more.
local function leave(lease)
  local session, since = lease[7]:match('^(.*)~(%d+)$')
  local pin = session and lease[1] .. '|' .. session
  if pin and call('HGET', PINS, pin) == lease[2] .. '|' .. since and call('HGET', PROXY .. lease[2], 'j'):find('%7Bsession%7D', 1, true) then
    call('HSET', PINS, pin, '|' .. since)
  end
end

local function hear(id, lease)
  if outcome == 'blocked' or outcome == 'captcha' then leave(lease) end
  local none_of_its_own = lease[4] ~= '' and target_did ~= '' and judge_target(id, lease)
  if cool > 0 and lease[3] ~= '' and lease[4] ~= '' then
    call('ZADD', PACE .. lease[4], 'GT', now + cool, lease[3])
    call('ZADD', DUE, 'NX', now + TIDY_MS, 'p' .. lease[4])
  end
  if proxy_did == 'f' and none_of_its_own then
    excused[#excused + 1] = r.entry('', lease)
  elseif proxy_did ~= '' then
    judge_proxy(lease[2])
  end
end

local out = {}
for i = 9, #ARGV do
  local id = ARGV[i]
  local lease = r.find(id, owner)
  out[#out + 1] = lease and 1 or 0
  if lease then
    if outcome ~= '' then
      lease[8] = outcome
      hear(id, lease)
    end
    if ends then r.finish('r', id, lease, outcome ~= '')
    else
      call('XADD', LOG, '*', 'o', r.entry(id, lease))
      call('HSET', LEASES, id, table.concat(lease, '|', 1, 8))
    end
  end
end
for _, text in ipairs(excused) do call('XADD', LOG, '*', 'u', text) end
return out
