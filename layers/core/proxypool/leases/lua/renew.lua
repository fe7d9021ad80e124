#!lua flags=allow-oom
-- renew: moves the end of a live lease to now + ttl, never back, never past granted + total (I5). One that would move it by
-- less than a second writes nothing, so that a storm of renewals fills no journal.  O(log n)
-- ARGV 1 lease id  2 owner  3 ttl ms  4 total ms.   Result {id, proxy, fence, expires, granted, facts, session~since} · nil
local r, id = rules(), ARGV[1]
local lease = r.find(id, ARGV[2])
if not lease then return nil end
local ends = math.min(now + ARGV[3], lease[5] + ARGV[4])
if ends >= lease[9] + 1000 then
  lease[9] = ends
  call('ZADD', DUE, ends, 'l' .. id)
  call('XADD', LOG, '*', 'k', r.entry(id, lease))
end
return r.shown(id, lease)
