#!lua flags=allow-oom
-- renew: moves the end of a live lease to now + ttl, never back, never past granted + total (I5). One that would move it by
-- less than a second writes nothing, so that a storm of renewals fills no journal.  O(log n)
-- ARGV 1 lease id  2 owner  3 ttl ms  4 total ms.   Result {id, proxy, fence, expires, granted, facts, session~since} · nil
local r, id = rules(), ARG.lease
local lease = r.find(id, ARG.owner)
if not lease then return nil end
local ends = math.min(now + ARG.ttl_ms, lease[L.granted] + ARG.total_ms)
if ends >= lease[L.ends] + 1000 then
  lease[L.ends] = ends
  call('ZADD', DUE, ends, END.lease .. id)
  call('XADD', LOG, '*', ENTRY.renewal, r.entry(id, lease))
end
return r.shown(id, lease)
