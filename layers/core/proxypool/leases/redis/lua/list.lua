#!lua flags=allow-oom
-- list: the live leases of an owner.  O(k)
-- ARG lease: an id, or '' for all.   Result {{id, proxy, fence, expires, granted, facts, session~since}…}
local r, out = rules(), {}
local ids = ARG.lease ~= '' and {ARG.lease} or call('SMEMBERS', HELD .. ARG.owner)
for _, id in ipairs(ids) do
  local lease = r.find(id, ARG.owner)
  if lease then out[#out + 1] = r.shown(id, lease) end
end
return out
