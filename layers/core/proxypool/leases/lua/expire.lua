-- expire: ends at most ARGV[1] overdue leases and request keys, takes as many stale proxies out; call it until the first is 0.
-- Result {handled, leases ended}.   O(n log n)
local handled, ended = purge(tonumber(ARGV[1]))
return {handled, ended}
