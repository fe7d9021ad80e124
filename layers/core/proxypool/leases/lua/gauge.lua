#!lua flags=allow-oom
-- gauge: how the pool stands, and the refusals since the last call, which it takes.  O(ready sets)
-- ARGV protocols.   Result {ready, live leases, journal's length, ms since its oldest entry, {reason, n…}}
local ready = 0
for _, protocol in ipairs(ARGV) do
  for rank = 0, 2 do ready = ready + call('ZCARD', P .. 'r:' .. protocol .. ':*:' .. rank) end
end
local oldest, refused = call('XRANGE', LOG, '-', '+', 'COUNT', 1)[1], call('HGETALL', REFUSED)
call('DEL', REFUSED)
return {ready, call('HLEN', LEASES), call('XLEN', LOG), oldest and now - oldest[1]:match('^%d+') or 0, refused}
