-- Checks now what a migration left for the end of the transaction: a trigger that is dropped before would check nothing, and a
-- table with something left to check cannot be altered.
DO $$
BEGIN
    SET CONSTRAINTS ALL IMMEDIATE;
    SET CONSTRAINTS ALL DEFERRED;
END
$$
