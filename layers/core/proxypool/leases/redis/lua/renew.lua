#!lua flags=allow-oom
-- renew: extends a live lease to now + ttl_ms, never to an earlier end, never past granted + total_ms (I5). An extension by less
-- than a second writes nothing, so that frequent renewals do not fill the journal.  O(log n)
-- Result {id, proxy, fence, expires, granted, facts, session~since} · nil
local r, id = rules(), ARG.lease
local lease = r.find(id, ARG.owner)
if not lease then return nil end
local ends = math.min(now + ARG.ttl_ms, lease[L.granted] + ARG.total_ms)
if ends >= lease[L.ends] + 1000 then
  lease[L.ends] = ends
  call('ZADD', EXPIRIES, ends, END.lease .. id)
  call('XADD', JOURNAL, '*', JOURNAL_KINDS.renewal, r.entry(id, lease))
end
return r.shown(id, lease)
