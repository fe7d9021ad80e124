#!lua
-- session_put: stores a session if its version is still the one that the caller has read (0: a new session).  O(1)
-- KEYS[1] the session (HASH: body, version, since; TTL).   Result {1, new version, seconds left} · {0, stored version}
local t = redis.call('TIME')
local stored = redis.call('HMGET', KEYS[1], 'version', 'since')
local current = tonumber(stored[1]) or 0
if current ~= tonumber(ARG.version) then return {0, current} end
local since = tonumber(stored[2]) or tonumber(t[1])
local left = math.max(1, math.min(tonumber(ARG.idle_seconds), since + tonumber(ARG.life_seconds) - t[1]))
redis.call('HSET', KEYS[1], 'body', ARG.body, 'version', current + 1, 'since', since)
redis.call('EXPIRE', KEYS[1], left)
return {1, current + 1, left}
