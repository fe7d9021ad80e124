#!lua
-- Stores a session over the version that the caller read.  O(1)
-- KEYS[1] the session (HASH: body, version, since; TTL)  ARGV: body, version read (0: none yet), idle seconds, most seconds
-- →  {1, new version, seconds left}, or {0, version that is there}
local t = redis.call('TIME')
local kept = redis.call('HMGET', KEYS[1], 'version', 'since')
local there = tonumber(kept[1]) or 0
if there ~= tonumber(ARG.version) then return {0, there} end
local since = tonumber(kept[2]) or tonumber(t[1])
local left = math.max(1, math.min(tonumber(ARG.idle_seconds), since + tonumber(ARG.life_seconds) - t[1]))
redis.call('HSET', KEYS[1], 'body', ARG.body, 'version', there + 1, 'since', since)
redis.call('EXPIRE', KEYS[1], left)
return {1, there + 1, left}
