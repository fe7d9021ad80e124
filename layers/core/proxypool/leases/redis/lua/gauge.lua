#!lua flags=allow-oom
-- gauge: counts for the metrics, with the refusals since the last call.  O(ready sets)
-- ARGV protocols.   Result {ready, live leases, journal's length, ms since its oldest entry, {reason, n…}}
local ready = 0
for _, protocol in ipairs(ARGV) do
  for rank = 0, 2 do ready = ready + call('ZCARD', P .. 'r:' .. protocol .. ':*:' .. rank) end
end
local oldest, refused = call('XRANGE', JOURNAL, '-', '+', 'COUNT', 1)[1], call('HGETALL', REFUSALS)
call('DEL', REFUSALS)
return {ready, call('HLEN', LEASES), call('XLEN', JOURNAL), oldest and now - oldest[1]:match('^%d+') or 0, refused}
