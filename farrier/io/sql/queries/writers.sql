-- Returns the time, and the transactions that have written history and have not ended. A transaction keeps the lock of its INSERT until
-- its rows are visible.
SELECT farrier.now() AS now, ARRAY(
    SELECT DISTINCT l.virtualtransaction FROM pg_locks l
     WHERE l.locktype = 'relation' AND l.relation = 'farrier.history'::regclass AND l.mode = 'RowExclusiveLock' AND l.granted
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) AS writers
