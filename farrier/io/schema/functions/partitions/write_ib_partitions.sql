-- Writes the partitions of a commit and the states of their members; the writer of kind ib_partition. Waits for no
-- client. A run is not written, and is due again in a second, while a client has locked the run's partition. The same
-- holds for a run that ends a partition, while a client has locked a member of that partition. In all other runs the
-- function leaves out members that a client has locked; the next run of the partition writes them. A run that deletes
-- a partition and has missed a member is due again at once. A partition that ends releases its number. Sections besides
-- those of write_resources: `marks` [{run, guid, seq, state, reason}], `left` [{run, guid, seq}].
CREATE OR REPLACE FUNCTION farrier.write_ib_partitions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    unwritten bigint[] := farrier.held_partitions(changes);
    dues interval[];
BEGIN
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '1 second' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
        IF changes = '{}' THEN RETURN; END IF;
    END IF;
    unwritten := ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text, draining boolean)
         WHERE (c.state = 'gone' OR (c.state = 'deleting' AND NOT c.draining))
           AND EXISTS (SELECT FROM farrier.ib_members m WHERE m.partition = c.run AND m.state <> 'leaving'));
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '0' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
        IF changes = '{}' THEN RETURN; END IF;
    END IF;
    SELECT array_agg(w.run), array_agg(w.due_in) INTO unwritten, dues FROM farrier.write_resources(changes) w;
    IF unwritten IS NOT NULL THEN
        RETURN QUERY SELECT u.run, u.due_in FROM unnest(unwritten, dues) u (run, due_in);
        changes := farrier.runs_without(changes, unwritten);
    END IF;
    WITH free AS MATERIALIZED (
        SELECT m.partition, m.guid, c.state, c.reason
          FROM jsonb_to_recordset(changes -> 'marks') c (run bigint, guid text, seq bigint, state text, reason text)
          JOIN farrier.ib_members m ON m.partition = c.run AND m.guid = c.guid AND m.seq = c.seq
         ORDER BY m.partition, m.guid FOR NO KEY UPDATE OF m SKIP LOCKED)
    UPDATE farrier.ib_members m
       SET state = f.state, reason = f.reason, since = CASE WHEN m.state = f.state THEN m.since ELSE farrier.now() END
      FROM free f WHERE m.partition = f.partition AND m.guid = f.guid;
    WITH free AS MATERIALIZED (
        SELECT m.partition, m.guid FROM jsonb_to_recordset(changes -> 'left') c (run bigint, guid text, seq bigint)
          JOIN farrier.ib_members m ON m.partition = c.run AND m.guid = c.guid AND m.seq = c.seq AND m.state = 'leaving'
         ORDER BY m.partition, m.guid FOR UPDATE OF m SKIP LOCKED)
    DELETE FROM farrier.ib_members m USING free f WHERE m.partition = f.partition AND m.guid = f.guid;
    DELETE FROM farrier.ib_members m
     USING jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone' AND m.partition = c.run;
    PERFORM farrier.free_numbers('ib_partition', c.run)
       FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone';
END $$;
