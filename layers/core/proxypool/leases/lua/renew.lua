-- renew: moves the end of a live lease to now + ttl, never back, never past granted + total (I5).  O(log n)
-- ARGV 1 lease id  2 owner  3 ttl ms  4 total ms.   Result {id, proxy, fence, expires, granted, facts} · nil
local id = ARGV[1]
local lease = find(id, ARGV[2])
if not lease then return nil end
local ends = math.max(lease[6], math.min(now + ARGV[3], lease[3] + ARGV[4]))
if ends > lease[6] then
  lease[6] = ends
  call('ZADD', DUE, ends, 'l' .. id)
  journal('k', id, lease)
end
return shown(id, lease)
