-- Lets the next migrator in.
SELECT pg_advisory_unlock(7022186424051131233)
