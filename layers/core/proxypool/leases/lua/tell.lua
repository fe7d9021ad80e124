-- tell: what a holder found (report), and the end of the lease if asked (release).  O(log n)
-- ARGV 1 lease id  2 owner  3 outcome or ''  4 '1' to end it.   Result 1 · 0 for unknown, foreign, expired, released
local id = ARGV[1]
local lease = find(id, ARGV[2])
if not lease then return 0 end
if ARGV[3] ~= '' then
  lease[5] = ARGV[3]
  journal('o', id, lease)
  if ARGV[4] ~= '1' then call('HSET', LEASES, id, table.concat(lease, '|', 1, 5)) end
end
if ARGV[4] == '1' then finish('r', id, lease) end
return 1
