#!lua flags=allow-oom
-- tell: what a holder found (report), and the end of the leases if asked (release).  O(log n) each
-- ARGV 1 owner  2 outcome or ''  3 '1' to end them  4 ms that (exit, target) cools, 0: not  5 of the proxy: 'f' it failed, 'p' it
--   carried the request, ''  6 of the target: 'f' it failed, 'a' it answered, ''  7 failures that open a breaker, where the pool
--   says none  8 ms it stays open, likewise  9… lease ids
-- Result {1 or 0 for unknown, foreign, expired and released, per id}
local r = rules()
local owner, outcome, ends, cool, proxy_did, target_did = ARG.owner, ARG.outcome, ARG.ends == '1', tonumber(ARG.cool_ms), ARG.proxy_result, ARG.target_result
local pool = outcome ~= '' and call('HMGET', POOL, 'breaker_failures', 'breaker_ms') or {}
local failures, open_ms = tonumber(pool[1] or ARG.breaker_failures), tonumber(pool[2] or ARG.breaker_ms)

local excused = {}  -- journal entries that take a failure back; they come behind the failure's own

-- Opens a target's breaker; what it made other proxies look guilty of is taken back.
local function open_target(target, fails, lease)
  call('HSET', TARGETS, target, BREAKER.open)
  call('ZADD', DUE, now + open_ms, END.target_breaker .. target)
  for i = 1, #fails, 2 do
    local id = fails[i]
    if fails[i + 1]:sub(-1) == BREAKER.suspected and not (proxy_did == PROXY_RESULT.failed and id == lease[L.proxy]) then
      excused[#excused + 1] = table.concat({'', owner, id, target, now, now, ''}, '|')
      if tonumber(call('HGET', PROXY .. id, F.failures) or 0) > 0 then call('HINCRBY', PROXY .. id, F.failures, -1) end
    end
  end
end

-- The target's breaker; returns whether a failure of the proxy is none of its own. A timeout counts once per proxy (it may
-- be the proxy's fault), what the target did once per lease.
local function judge_target(id, lease)
  local target = lease[L.target]
  local state = r.target_state(target)
  if target_did == TARGET_RESULT.answered then
    call('DEL', FAILS .. target)
    if state and (state == BREAKER.half_open .. id or state == BREAKER.half_open) then call('HDEL', TARGETS, target) end
  elseif target_did == TARGET_RESULT.failed then
    if state then
      if state == BREAKER.half_open .. id then open_target(target, {}, lease) end
      return true
    end
    call('HSET', FAILS .. target, proxy_did == PROXY_RESULT.failed and lease[L.proxy] or id, now .. (proxy_did == PROXY_RESULT.failed and BREAKER.suspected or ''))
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
  if proxy_did == PROXY_RESULT.carried then
    if call('HDEL', key, F.failures, F.breaker) > 0 then r.place(id) end
  elseif call('HINCRBY', key, F.failures, 1) >= failures or call('HGET', key, F.breaker) == BREAKER.half_open then
    call('HSET', key, F.breaker, BREAKER.open)
    call('ZADD', DUE, now + open_ms, END.proxy_breaker .. id)
    r.place(id)
  end
end

-- A gateway gives each session a name, and each name an exit: one that is banned leaves its proxy, so that the next acquire
-- moves it and gives it another name. What was leased before it moved moves it no more.
local function leave(lease)
  local session, since = lease[L.session]:match('^(.*)~(%d+)$')
  local pin = session and lease[L.owner] .. '|' .. session
  if pin and call('HGET', PINS, pin) == lease[L.proxy] .. '|' .. since and call('HGET', PROXY .. lease[L.proxy], F.facts):find('%7Bsession%7D', 1, true) then
    call('HSET', PINS, pin, '|' .. since)
  end
end

local function hear(id, lease)
  if outcome == 'blocked' or outcome == 'captcha' then leave(lease) end
  local none_of_its_own = lease[L.target] ~= '' and target_did ~= TARGET_RESULT.unknown and judge_target(id, lease)
  if cool > 0 and lease[L.exit] ~= '' and lease[L.target] ~= '' then
    call('ZADD', PACE .. lease[L.target], 'GT', now + cool, lease[L.exit])
    call('ZADD', DUE, 'NX', now + TIDY_MS, END.numbers .. lease[L.target])
  end
  if proxy_did == PROXY_RESULT.failed and none_of_its_own then
    excused[#excused + 1] = r.entry('', lease)
  elseif proxy_did ~= PROXY_RESULT.unknown then
    judge_proxy(lease[L.proxy])
  end
end

local out = {}
for i = AT.lease_ids, #ARGV do
  local id = ARGV[i]
  local lease = r.find(id, owner)
  out[#out + 1] = lease and 1 or 0
  if lease then
    if outcome ~= '' then
      lease[L.outcome] = outcome
      hear(id, lease)
    end
    if ends then r.finish(ENTRY.release, id, lease, outcome ~= '')
    else
      call('XADD', LOG, '*', ENTRY.outcome, r.entry(id, lease))
      call('HSET', LEASES, id, table.concat(lease, '|', 1, 8))
    end
  end
end
for _, text in ipairs(excused) do call('XADD', LOG, '*', ENTRY.reverted, text) end
return out
