-- One way to apply wakes, however many they are, and answers of every kind found by their ids.

-- In the order of ids, in which every writer locks: an UPDATE of one row locks it, so going over them keeps the order. What
-- the UPDATE does not find is not there to be woken, whoever may be registering it at this moment.
CREATE OR REPLACE FUNCTION farrier.apply_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    woken record;
    last_kind text := '';
BEGIN
    FOR woken IN
        SELECT DISTINCT r.kind, r.id FROM wake_requests r WHERE r.xact = pg_current_xact_id() ORDER BY r.kind, r.id
    LOOP
        UPDATE schedule s
           SET wake_seq = s.wake_seq + 1,
               lane = CASE WHEN s.claim_token IS NULL THEN 0 ELSE s.lane END,
               due_at = CASE WHEN s.claim_token IS NOT NULL THEN s.due_at           -- its release will see wake_seq
                             WHEN s.lane = 0 THEN least(s.due_at, farrier.now())    -- keeps its place among the woken
                             ELSE farrier.now() END
         WHERE s.kind = woken.kind AND s.id = woken.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no % with id % is scheduled: it was never registered, or has been deleted', woken.kind, woken.id
                USING ERRCODE = 'FR404', HINT = 'A deleted resource takes no requests; a new registration makes a new id.';
        END IF;
        IF woken.kind <> last_kind THEN
            PERFORM pg_notify('farrier_wake', woken.kind);
            last_kind := woken.kind;
        END IF;
    END LOOP;
    DELETE FROM wake_requests WHERE xact = pg_current_xact_id();
    RETURN NULL;
END $$;

-- As answer_intents, for kinds: each request found by its id, whatever the planner thinks of how many are pending.
CREATE FUNCTION farrier.answer_requests(of_kind text, answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.resource_intents i
       SET status = CASE WHEN a.accepted THEN 'accepted' ELSE 'rejected' END, reason = nullif(a.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) a (run bigint, request bigint, accepted boolean, reason text)
     WHERE i.id = a.request AND i.kind || '' = of_kind AND i.resource_id + 0 = a.run AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (e ->> 'request')::bigint FROM jsonb_array_elements(answers) e));
END $$;

-- The writer of kinds with one table. Sections: `kind` [{run, kind}], `runs`, `resources` [{run, columns}], `answers`
-- [{run, request, accepted, reason}]. One with more tables calls this first, and writes no section of a run that it answers.
CREATE OR REPLACE FUNCTION farrier.write_resources(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    of_kind text := changes #>> '{kind,0,kind}';
    relation regclass := farrier.relation_of(of_kind);
    columns text;
    fit bigint[];
BEGIN
    EXECUTE format('SELECT coalesce(array_agg(l.id), ''{}'') FROM (
                        SELECT r.id FROM %s r JOIN jsonb_to_recordset($1) c (run bigint, version bigint)
                            ON c.run = r.id AND c.version = r.version
                         ORDER BY r.id FOR NO KEY UPDATE OF r) l', relation) INTO fit USING changes -> 'runs';
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
        RETURN QUERY SELECT c.run, interval '0' FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (fit);
        changes := farrier.of_runs(changes, fit);
    END IF;
    columns := (SELECT string_agg(format('%1$I = c.%1$I', k), ', ' ORDER BY k)
                  FROM jsonb_object_keys(changes #> '{resources,0}') k WHERE k <> 'run');
    IF columns IS NOT NULL THEN
        EXECUTE format('UPDATE %1$s r SET version = r.version + 1, %2$s
                          FROM jsonb_array_elements($1) e, jsonb_populate_record(NULL::%1$s, e) c
                         WHERE r.id = (e ->> ''run'')::bigint', relation, columns) USING changes -> 'resources';
    END IF;
    IF changes ? 'answers' THEN
        PERFORM farrier.answer_requests(of_kind, changes -> 'answers');
    END IF;
END $$;

SELECT farrier.grant_rights();
