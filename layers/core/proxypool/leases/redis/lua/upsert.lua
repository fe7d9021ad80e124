#!lua
-- upsert: adds, changes or removes proxies by version; an equal or older version changes nothing (I11).  O(log n) each
-- ARG keep_ms: a removed proxy's version is kept for that long · again: 1 if an equal version counts as newer (a rebuild) · rows:
--   nine values per proxy: id, version, member ('' removes), score, ready sets 'r:http:us:2 r:http:*:2', fresh until (ms),
--   slots, facts, '<until ms> <exit> <hosts…>' for targets that the exit is not used for until then
-- Result: how many were newer. A leased proxy keeps its holder, and its URL until the lease ends.
local r, newer = rules(), 0
for i = AT.rows, #ARGV, 9 do
  local id, version, member, score, sets, fresh, slots, facts, rests = unpack(ARGV, i, i + 8)
  local key = PROXY .. id
  local old = call('HMGET', key, F.version, F.member, F.sets)
  if not old[1] or tonumber(old[1]) < version + ARG.again then
    newer = newer + 1
    if old[2] and (old[2] ~= member or old[3] ~= sets) then r.pull(old[2], old[3]) end
    if member == '' then
      call('HSET', key, F.version, version)
      call('HDEL', key, F.member, F.score, F.sets, F.fresh_until, F.slots)
      call('ZREM', FRESH, id)
      call('ZADD', EXPIRIES, now + ARG.keep_ms, END.version .. id)
    else
      call('HSET', key, F.version, version, F.member, member, F.score, score, F.sets, sets, F.fresh_until, fresh,
        F.slots, slots, F.facts, facts)
      call('ZADD', FRESH, fresh, id)
      local ends, exit, hosts = rests:match('^(%d+) (%S+) (.+)$')
      for host in (hosts or ''):gmatch('%S+') do
        call('ZADD', NOT_BEFORE .. host, 'GT', ends, exit)
        call('ZADD', EXPIRIES, 'NX', now + TIDY_MS, END.numbers .. host)
      end
    end
    r.place(id)
  end
end
return newer
