-- Refuses a pool of partition keys with a number that no partition can have (FR400): the lowest number is given first, so every
-- new partition would take it and fail. BEFORE INSERT or UPDATE trigger on number_pools.
CREATE OR REPLACE FUNCTION farrier.check_pkey_pool() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.first < 1 OR NEW.last > 32766 THEN
        RAISE EXCEPTION 'pool % cannot range from % to %: keys of partitions range from 1 (0x0001) to 32766 (0x7ffe)',
            NEW.pool, NEW.first, NEW.last
            USING ERRCODE = 'FR400', HINT = '0x7fff is the default partition of UFM.';
    END IF;
    RETURN NEW;
END $$;
