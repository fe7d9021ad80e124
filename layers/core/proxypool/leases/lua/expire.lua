#!lua flags=allow-oom
-- expire: ends at most ARGV[1] overdue things (leases, pins, request keys, open breakers, old numbers) and takes as many
-- stale proxies out; call it until the first is 0.   Result {handled, leases ended}.   O(n log n)
local handled, ended = purge(tonumber(ARG.count))
return {handled + rules().freshen(tonumber(ARG.count)), ended}
