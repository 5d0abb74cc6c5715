-- Locks keys of a purpose until the transaction ends; a key stands for an object without a row of its own. Inserts the
-- missing rows of table locks, and locks the rows in the order of their hashes, so that two callers cannot deadlock.
-- Keys with the same hash share a lock.
CREATE OR REPLACE FUNCTION farrier.lock_keys(of_purpose text, keys text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted bigint[] := ARRAY(SELECT DISTINCT hashtextextended(k, 0) FROM unnest(keys) k ORDER BY 1);
BEGIN
    INSERT INTO locks SELECT of_purpose, w FROM unnest(wanted) w ORDER BY w ON CONFLICT DO NOTHING;
    PERFORM FROM locks l WHERE l.purpose = of_purpose AND l.key = ANY (wanted) ORDER BY l.key FOR UPDATE;
END $$;
