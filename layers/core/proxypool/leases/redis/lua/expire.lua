#!lua flags=allow-oom
-- expire: ends at most `count` expired things (leases, pins, request keys, open breakers, numbers of targets) and removes as many
-- stale proxies from the ready sets; to be called until the first number is 0.   Result {handled, leases ended}.   O(n log n)
local handled, ended = purge(tonumber(ARG.count))
return {handled + rules().freshen(tonumber(ARG.count)), ended}
