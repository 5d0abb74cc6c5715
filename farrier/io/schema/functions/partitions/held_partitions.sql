-- Returns the runs whose partition another transaction has locked, and the runs that end a partition with a member that another
-- transaction has locked. Locks the partitions of all other runs, and the members of partitions that end. Called by
-- write_ib_partitions.
CREATE OR REPLACE FUNCTION farrier.held_partitions(changes jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    free bigint[];
    ending bigint[] := ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone');
    busy bigint[] := '{}';
BEGIN
    free := ARRAY(
        SELECT p.id FROM farrier.ib_partitions p JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint) ON c.run = p.id
         ORDER BY p.id FOR NO KEY UPDATE OF p SKIP LOCKED);
    IF ending <> '{}' THEN
        WITH unheld AS MATERIALIZED (
            SELECT m.partition, m.guid FROM farrier.ib_members m WHERE m.partition = ANY (ending)
             ORDER BY m.partition, m.guid FOR UPDATE SKIP LOCKED)
        SELECT coalesce(array_agg(DISTINCT m.partition), '{}') INTO busy FROM farrier.ib_members m
         WHERE m.partition = ANY (ending) AND NOT EXISTS (SELECT FROM unheld u WHERE u.partition = m.partition AND u.guid = m.guid);
    END IF;
    RETURN ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (free) OR c.run = ANY (busy));
END $$;
