#!lua flags=allow-oom
-- Reads a session and moves its end on.  O(1)
-- KEYS[1] the session (HASH: body, version, since; TTL)  ARGV: idle seconds, most seconds  →  {body, version, seconds left} or nil
local t = redis.call('TIME')
local kept = redis.call('HMGET', KEYS[1], 'body', 'version', 'since')
if not kept[1] then return nil end
local left = math.min(tonumber(ARG.idle_seconds), tonumber(kept[3]) + tonumber(ARG.life_seconds) - t[1])
if left <= 0 then
  redis.call('UNLINK', KEYS[1])
  return nil
end
redis.call('EXPIRE', KEYS[1], left)
return {kept[1], kept[2], left}
