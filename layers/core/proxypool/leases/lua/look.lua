#!lua flags=allow-oom
-- look: live leases of an owner.  O(k)
-- ARGV 1 owner  2 lease id, or '' for all.   Result {{id, proxy, fence, expires, granted, facts, session~since}…}
local r, out = rules(), {}
local ids = ARG.lease ~= '' and {ARG.lease} or call('SMEMBERS', HELD .. ARG.owner)
for _, id in ipairs(ids) do
  local lease = r.find(id, ARG.owner)
  if lease then out[#out + 1] = r.shown(id, lease) end
end
return out
