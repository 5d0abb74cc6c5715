-- The one way to make a resource's handler run as soon as possible. Takes effect at COMMIT; there, an id that is not
-- scheduled is an error (FR404). May be called any number of times.
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
