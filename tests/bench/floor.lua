#!lua
-- floor: the minimum of an exclusive, expiring, journalled lease, without decisions in Lua. A baseline for acquire.
-- KEYS 1 tag.  ARGV 1 lease id  2 owner  3 ttl ms  4 rank  5 ready set  6 ready set
local P, call = KEYS[1], redis.call
local t = call('TIME')
local now = t[1] * 1000
call('ZRANGE', P .. ':due', '-inf', now, 'BYSCORE', 'LIMIT', 0, 4)
local m = call('ZRANGE', P .. ARGV[5], ARGV[4], ARGV[4])[1]
if not m then return false end
local pid = m:sub(8, 27)
local p = call('HMGET', P .. ':p:' .. pid, 'j', 'h')
call('HSET', P .. ':p:' .. pid, 'h', 1)
call('ZREM', P .. ARGV[5], m)
call('ZREM', P .. ARGV[6], m)
local fence = call('XADD', P .. ':log', '*', 'g', ARGV[1] .. '|' .. ARGV[2] .. '|' .. pid)
call('HSET', P .. ':leases', ARGV[1], ARGV[2] .. '|' .. pid .. '|' .. fence)
call('ZADD', P .. ':due', now + ARGV[3], 'l' .. ARGV[1])
call('HINCRBY', P .. ':open', ARGV[2], 1)
return {p[1], fence}
