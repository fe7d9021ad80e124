-- The third part of acquire: writes the leases. Nothing is decided here, and no write can fail: an error would not roll back
-- the ones before it.
local expires, out, ids = now + ARG.ttl_ms, {moved and 'moved' or 'ok'}, {}
for i, g in ipairs(picks) do ids[i] = g[2] end
if pin then session = session .. '~' .. since end
local fence = call('XADD', JOURNAL, '*', JOURNAL_KINDS.grant,
  table.concat({base, owner, target, instant, expires, table.concat(ids, ',')}, '|'))
local records, due, gone, uses = {}, {}, {}, {}
for i, g in ipairs(picks) do
  local id = g[2]
  ids[i] = base .. '.' .. i
  records[2 * i - 1], records[2 * i] = ids[i], table.concat({owner, id, g[3], target, instant, fence, session, ''}, '|')
  due[2 * i - 1], due[2 * i] = expires, END.lease .. ids[i]
  out[i + 1] = {ids[i], id, fence, expires, now, g.facts, session}
  if not joined then
    if g[3] ~= '' then call('HINCRBY', EXITS, g[3], 1) end
    if g.times then  -- once per proxy, for all of its slots
      call('HSET', PROXY .. id, F.holders, g.held + g.times, F.grants, g.used + g.times)
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
call('ZADD', EXPIRIES, unpack(due))
call('SADD', HELD .. owner, unpack(ids))
if uses[1] then
  call('ZADD', paced_by, unpack(uses))
  call('ZADD', EXPIRIES, 'NX', now + TIDY_MS, END.numbers .. target)
end
if probe then call('HSET', BREAKERS, target, BREAKER.half_open .. ids[1]) end
if pin then
  call('HINCRBY', SESSION_HOLDERS, pin .. '~' .. since .. '|' .. picks[1][2], 1)
  call('HSET', PINS, pin, picks[1][2] .. '|' .. since)
  call('ZADD', EXPIRIES, math.min(now + ARG.pin_ms, since + ARG.pin_total_ms), END.pin .. pin)
end
for _, key in ipairs({ARG.request_key, ARG.repeated == '1' and base or ''}) do
  if key ~= '' then
    call('HSET', IDEMPOTENCY, key, table.concat({base, #picks, ARG.fingerprint}, '|'))
    call('ZADD', EXPIRIES, now + ARG.keep_ms, END.idempotency .. key)
  end
end
return out
