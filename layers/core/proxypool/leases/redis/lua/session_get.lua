#!lua flags=allow-oom
-- session_get: reads a session and extends it by idle_seconds, to at most life_seconds after its creation.  O(1)
-- KEYS[1] the session (HASH: body, version, since; TTL).   Result {body, version, seconds left} · nil
local t = redis.call('TIME')
local stored = redis.call('HMGET', KEYS[1], 'body', 'version', 'since')
if not stored[1] then return nil end
local left = math.min(tonumber(ARG.idle_seconds), tonumber(stored[3]) + tonumber(ARG.life_seconds) - t[1])
if left <= 0 then
  redis.call('UNLINK', KEYS[1])
  return nil
end
redis.call('EXPIRE', KEYS[1], left)
return {stored[1], stored[2], left}
