-- Holds every resource of every kind, because the database was restored from a backup. Rejects all pending intents and ends all
-- tasks, which are of the time of the backup. Removes outcomes and the marks of steps; the results of these steps stay unknown.
-- Controllers lose all shards, so no run that began before can commit. Returns the number of held resources.
CREATE OR REPLACE FUNCTION farrier.hold_restored() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    of_kind record;
    again constant text := 'the database was restored; submit again';
BEGIN
    PERFORM FROM shards s ORDER BY s.kind, s.shard FOR UPDATE;  -- waits for commits that hold shards
    UPDATE shards s SET owner = NULL, epoch = s.epoch + 1;
    UPDATE controllers c SET expired = true WHERE NOT c.expired;
    DELETE FROM restore_holds;
    FOR of_kind IN SELECT k.kind, k.relation, k.living FROM kinds k JOIN pg_class c ON c.oid = k.relation ORDER BY k.kind LOOP
        EXECUTE format('INSERT INTO restore_holds (kind, id, since, power) SELECT %L, id, farrier.now(), %s FROM %s WHERE %s', of_kind.kind,
                       CASE of_kind.kind WHEN 'node' THEN 'CASE management WHEN ''manageable'' THEN power END' ELSE 'NULL' END,
                       of_kind.relation, of_kind.living);
    END LOOP;
    UPDATE node_observations o SET stale_since = farrier.now();  -- every machine is read again soon
    PERFORM node_unseen(ARRAY(SELECT e.resource FROM effects e WHERE e.kind = 'node'));
    DELETE FROM marks;
    DELETE FROM outcomes;
    UPDATE intents i SET status = 'rejected', reason = again, answered_at = farrier.now() WHERE i.status = 'pending';
    UPDATE resource_intents i SET status = 'rejected', reason = again, answered_at = farrier.now() WHERE i.status = 'pending';
    UPDATE node_tasks t SET status = 'cancelled', result = to_jsonb(again), ended_at = farrier.now() WHERE t.ended_at IS NULL;
    PERFORM settle_here(true);
    PERFORM pg_notify('farrier_wake', 'shards'), pg_notify('farrier_intent_answered', '');
    RETURN (SELECT count(*) FROM restore_holds);
END $$;
