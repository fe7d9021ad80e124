#!lua flags=allow-oom
-- unlock: gives the expiry run's lock back, if it is still this run's.
-- ARGV run id
if call('GET', P .. KEY.lock) == ARG.run then call('DEL', P .. KEY.lock) end
