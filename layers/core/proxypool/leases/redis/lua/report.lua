#!lua flags=allow-oom
-- report: an outcome of leases (report), their end (release), or both.  O(log n) each
-- ARG outcome: or '' · ends: '1' to end them · cool_ms: (exit, target) is not used for that long · proxy_result, target_result:
--   what the outcome means (leases/outcome.py) · breaker_failures, breaker_ms: unless the pool has its own · lease_ids…
-- Result {1, or 0 for an unknown, another owner's, expired or released lease, per id}
local r = rules()
local owner, outcome, ends, cool = ARG.owner, ARG.outcome, ARG.ends == '1', tonumber(ARG.cool_ms)
local proxy_result, target_result = ARG.proxy_result, ARG.target_result
local has_failed = proxy_result == PROXY_RESULT.failed
local pool = outcome ~= '' and call('HMGET', SETTINGS, 'breaker_failures', 'breaker_ms') or {}
local failures, open_ms = tonumber(pool[1] or ARG.breaker_failures), tonumber(pool[2] or ARG.breaker_ms)

local reverted = {}  -- journal entries that revert a proxy's failure; they are written after the failure's own

-- Opens a target's breaker, and reverts the failures that it has caused to other proxies.
local function open_target(target, fails, lease)
  call('HSET', BREAKERS, target, BREAKER.open)
  call('ZADD', EXPIRIES, now + open_ms, END.target_breaker .. target)
  for i = 1, #fails, 2 do
    local id = fails[i]
    if fails[i + 1]:sub(-1) == BREAKER.suspected and not (has_failed and id == lease[L.proxy]) then
      reverted[#reverted + 1] = table.concat({'', owner, id, target, now, now, ''}, '|')
      if tonumber(call('HGET', PROXY .. id, F.failures) or 0) > 0 then call('HINCRBY', PROXY .. id, F.failures, -1) end
    end
  end
end

-- Updates the target's breaker. Returns true if the proxy is not to blame for its failure. A timeout counts once per proxy (it
-- may be the proxy's fault), an error of the target once per lease.
local function update_target(id, lease)
  local target = lease[L.target]
  local state = r.target_state(target)
  if target_result == TARGET_RESULT.answered then
    call('DEL', FAILURES .. target)
    if state and (state == BREAKER.half_open .. id or state == BREAKER.half_open) then call('HDEL', BREAKERS, target) end
  elseif target_result == TARGET_RESULT.failed then
    if state then
      if state == BREAKER.half_open .. id then open_target(target, {}, lease) end
      return true
    end
    call('HSET', FAILURES .. target, has_failed and lease[L.proxy] or id, now .. (has_failed and BREAKER.suspected or ''))
    r.tidy(target)
    if call('HLEN', FAILURES .. target) >= failures then
      open_target(target, call('HGETALL', FAILURES .. target), lease)
      return true
    end
  end
end

-- Updates the proxy's breaker: a failed probe opens it again at once.
local function update_proxy(id)
  local key = PROXY .. id
  if proxy_result == PROXY_RESULT.carried then
    if call('HDEL', key, F.failures, F.breaker) > 0 then r.place(id) end
  elseif call('HINCRBY', key, F.failures, 1) >= failures or call('HGET', key, F.breaker) == BREAKER.half_open then
    call('HSET', key, F.breaker, BREAKER.open)
    call('ZADD', EXPIRIES, now + open_ms, END.proxy_breaker .. id)
    r.place(id)
  end
end

-- A gateway assigns an exit to each session name. If that exit is banned, the session is unpinned, and the next acquire gives it
-- another name. An outcome of a lease from before the move does not unpin it again.
local function unpin(lease)
  local session, since = lease[L.session]:match('^(.*)~(%d+)$')
  local pin = session and lease[L.owner] .. '|' .. session
  if pin and call('HGET', PINS, pin) == lease[L.proxy] .. '|' .. since
      and call('HGET', PROXY .. lease[L.proxy], F.facts):find('%7Bsession%7D', 1, true) then
    call('HSET', PINS, pin, '|' .. since)
  end
end

local function apply_outcome(id, lease)
  if outcome == 'blocked' or outcome == 'captcha' then unpin(lease) end
  local is_not_to_blame = lease[L.target] ~= '' and target_result ~= TARGET_RESULT.unknown and update_target(id, lease)
  if cool > 0 and lease[L.exit] ~= '' and lease[L.target] ~= '' then
    call('ZADD', NOT_BEFORE .. lease[L.target], 'GT', now + cool, lease[L.exit])
    call('ZADD', EXPIRIES, 'NX', now + TIDY_MS, END.numbers .. lease[L.target])
  end
  if has_failed and is_not_to_blame then
    reverted[#reverted + 1] = r.entry('', lease)
  elseif proxy_result ~= PROXY_RESULT.unknown then
    update_proxy(lease[L.proxy])
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
      apply_outcome(id, lease)
    end
    if ends then r.finish(JOURNAL_KINDS.release, id, lease, outcome ~= '')
    else
      call('XADD', JOURNAL, '*', JOURNAL_KINDS.outcome, r.entry(id, lease))
      call('HSET', LEASES, id, table.concat(lease, '|', 1, 8))
    end
  end
end
for _, text in ipairs(reverted) do call('XADD', JOURNAL, '*', JOURNAL_KINDS.reverted, text) end
return out
