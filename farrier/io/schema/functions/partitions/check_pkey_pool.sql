-- Every number of a pool is one that a partition can have: the lowest is given first, so one that no partition can have would
-- be tried by all, for ever.
CREATE OR REPLACE FUNCTION farrier.check_pkey_pool() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.first < 1 OR NEW.last > 32766 THEN
        RAISE EXCEPTION 'pool % would go from % to %, and keys of partitions from 1 (0x0001) to 32766 (0x7ffe)',
            NEW.pool, NEW.first, NEW.last
            USING ERRCODE = 'FR400', HINT = '0x7fff is the key of UFM itself.';
    END IF;
    RETURN NEW;
END $$;
