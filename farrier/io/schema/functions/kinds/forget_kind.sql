-- Removes a kind; FR409 while one of its resources has not ended. Its table, history and intents stay; pending intents are rejected.
-- Its shards, wakes, marks, outcomes and numbers are deleted. Locks the table against all other access until the transaction ends.
-- Also removes a kind whose table was dropped. FR400 for an unknown kind.
CREATE OR REPLACE FUNCTION farrier.forget_kind(of_kind text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := (SELECT k.relation FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = of_kind);
    living record;
    hook name;
BEGIN
    IF NOT EXISTS (SELECT FROM kinds k WHERE k.kind = of_kind AND k.from_template) THEN PERFORM relation_of(of_kind); END IF;
    IF relation IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        EXECUTE format('SELECT count(*) AS n, min(r.name) AS first FROM %s r WHERE r.ended_at IS NULL', relation) INTO living;
        IF living.n > 0 THEN
            RAISE EXCEPTION 'resources of kind % have not ended: % in all, such as %', of_kind, living.n, living.first
                USING ERRCODE = 'FR409', HINT = 'Delete them, wait until the daemon has ended them, then remove the kind.';
        END IF;
        FOR hook IN SELECT t.tgname FROM pg_trigger t
                     WHERE t.tgrelid = relation AND t.tgfoid IN ('begin_resource'::regproc, 'enqueue_resource'::regproc, 'enter_state'::regproc) LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', hook, relation);
        END LOOP;
    END IF;
    PERFORM free_numbers(n.kind, n.id) FROM (SELECT DISTINCT kind, id FROM pool_numbers WHERE kind = of_kind) n;
    DELETE FROM shards WHERE kind = of_kind;
    DELETE FROM wakes WHERE kind = of_kind;
    DELETE FROM marks WHERE kind = of_kind;
    UPDATE resource_intents i SET status = 'rejected', reason = 'its kind was removed', answered_at = farrier.now()
     WHERE i.kind = of_kind AND i.status = 'pending';
    DELETE FROM outcomes WHERE kind = of_kind;
    DELETE FROM edges WHERE kind = of_kind;
    DELETE FROM kind_actions WHERE kind = of_kind;
    DELETE FROM kind_states WHERE kind = of_kind;
    DELETE FROM kind_layers WHERE kind = of_kind;
    DELETE FROM kinds WHERE kind = of_kind;
    DELETE FROM callable WHERE to_regprocedure(function) IS NULL;
END $$;
