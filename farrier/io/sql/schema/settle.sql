-- Checks the deferred constraints of a migration now: a trigger that is dropped earlier would check nothing, and a table with pending
-- checks cannot be altered.
DO $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
END
$$
