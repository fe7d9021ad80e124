#!lua flags=allow-oom
-- unlock: deletes the expiry run's lock if this run still holds it.
if call('GET', P .. KEY.lock) == ARG.run then call('DEL', P .. KEY.lock) end
