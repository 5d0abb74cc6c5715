-- Makes the ids of a kind's new table begin after the ids that history and intents have for the kind: an earlier,
-- dropped table of the kind may have used them. Called by make_kind.
CREATE OR REPLACE FUNCTION farrier.begin_ids(of_kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    known bigint := greatest((SELECT max(i.resource_id) FROM resource_intents i WHERE i.kind = of_kind),
                             (SELECT max(h.id) FROM history h WHERE h.kind = of_kind));
    here bigint;
BEGIN
    EXECUTE format('SELECT max(r.id) FROM %s r', relation) INTO here;
    IF known > coalesce(here, 0) THEN
        EXECUTE format('ALTER TABLE %s ALTER id RESTART WITH %s', relation, known + 1);
    END IF;
END $$;
