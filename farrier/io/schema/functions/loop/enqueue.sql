-- Enqueues a resource: its handler runs as soon as possible after COMMIT. May be repeated. FR400 for a null or an unknown kind,
-- FR404 for a resource that does not exist or has ended; a resource does not exist before its registration commits.
CREATE OR REPLACE FUNCTION farrier.enqueue(kind text, id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF kind IS NULL OR id IS NULL THEN
        RAISE EXCEPTION 'expected a kind and an ID; got % and %', coalesce(quote_literal(kind), 'null'), coalesce(id::text, 'null')
            USING ERRCODE = 'FR400';
    END IF;
    IF NOT EXISTS (SELECT FROM living($1, ARRAY[$2])) THEN
        RAISE EXCEPTION 'no % has ID %: it was never registered, or has ended', kind, id
            USING ERRCODE = 'FR404', HINT = 'A deleted resource accepts no intents; register it again, with a new ID.';
    END IF;
    INSERT INTO wakes (kind, resource) VALUES ($1, $2);
END $$;
