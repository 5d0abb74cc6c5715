-- Writes the runs of a commit. It is the writer of kinds with one table. Returns the runs whose resource no longer has
-- the version in `runs`, or is locked by another transaction, and writes nothing for them; see begin_commit. Sections: `kind` [{run,
-- kind}], `runs` [{run, version, writes, commit_id}], `resources` [{run, columns}], `answers` [{run, request, accepted, reason}],
-- `ended` [{run}]. Rejects the pending intents of a resource that has ended, because no later run decides on them. The
-- writer of a kind with more tables calls it first, and writes nothing for the runs that it returns.
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
                         ORDER BY r.id FOR NO KEY UPDATE OF r SKIP LOCKED) l', relation) INTO fit USING changes -> 'runs';
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
        RETURN QUERY SELECT u.run, u.due_in FROM farrier.unfit_runs(relation, changes -> 'runs', fit) u;
        changes := farrier.filter_runs(changes, fit);
    END IF;
    EXECUTE format('UPDATE %s r SET version = r.version + 1, commit_id = c.commit_id
                      FROM jsonb_to_recordset($1) c (run bigint, writes boolean, commit_id uuid)
                     WHERE r.id = c.run AND c.writes', relation) USING changes -> 'runs';
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
    IF changes ? 'ended' THEN
        UPDATE farrier.resource_intents i
           SET status = 'rejected', reason = format('this %s has ended', replace(of_kind, '_', ' ')), answered_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'ended') c (run bigint)
         WHERE i.kind = of_kind AND i.resource_id = c.run AND i.status = 'pending';
    END IF;
END $$;
