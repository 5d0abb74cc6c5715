-- Enqueues a resource: its handler runs as soon as possible after COMMIT, where apply_wakes applies the request. May be repeated.
-- FR400 for a null or a kind that is too long; FR404, at COMMIT, for a resource that is not on the schedule.
CREATE OR REPLACE FUNCTION farrier.enqueue(kind text, id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF char_length(kind) > 40 THEN
        RAISE EXCEPTION 'a kind has at most 40 characters; got %', char_length(kind)
            USING ERRCODE = 'FR400', HINT = 'SELECT kind FROM farrier.kinds lists those besides node and maas_region.';
    END IF;
    IF kind IS NULL OR id IS NULL THEN
        RAISE EXCEPTION 'a kind and an id were expected; got % and %', coalesce(quote_literal(kind), 'null'), coalesce(id::text, 'null')
            USING ERRCODE = 'FR400';
    END IF;
    INSERT INTO wake_requests (kind, id) VALUES ($1, $2);
END $$;
