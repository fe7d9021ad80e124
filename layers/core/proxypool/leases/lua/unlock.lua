#!lua flags=allow-oom
-- unlock: gives the expiry run's lock back, if it is still this run's.
-- ARGV run id
if call('GET', P .. 'lock') == ARGV[1] then call('DEL', P .. 'lock') end
