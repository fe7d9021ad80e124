#!lua flags=allow-oom
-- unlock: gives the expiry run's lock back, if it is still this run's.
-- ARGV run id.   Result 1 · 0
if call('GET', P .. 'lock') == ARGV[1] then return call('DEL', P .. 'lock') end
return 0
