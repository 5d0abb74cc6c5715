-- Locks one key as lock_keys does, without waiting, and returns whether it obtained the lock. Waits only for a transaction that
-- adds the row of the same key.
CREATE OR REPLACE FUNCTION farrier.try_lock_key(of_purpose text, wanted text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO locks SELECT of_purpose, hashtextextended(wanted, 0)
     WHERE NOT EXISTS (SELECT FROM locks l WHERE l.purpose = of_purpose AND l.key = hashtextextended(wanted, 0))
        ON CONFLICT DO NOTHING;
    PERFORM FROM locks l WHERE l.purpose = of_purpose AND l.key = hashtextextended(wanted, 0) FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;
