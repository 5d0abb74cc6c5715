-- Waits until no other session migrates this database; held until the session ends or unlocks.
SELECT pg_advisory_lock(7022186424051131233)
