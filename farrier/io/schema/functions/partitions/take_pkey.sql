-- Takes the number of a new partition from the pool of its site, or from pool `pkey` if the partition has no site.
-- BEFORE INSERT trigger on ib_partitions.
CREATE OR REPLACE FUNCTION farrier.take_pkey() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.mtu_limit NOT IN (2, 4) THEN
        RAISE EXCEPTION 'mtu_limit must be 2 or 4 (KiB); got %', NEW.mtu_limit USING ERRCODE = 'FR400';
    END IF;
    NEW.pkey := take_number(CASE WHEN NEW.site IS NULL THEN 'pkey' ELSE 'pkey:' || NEW.site END,
                            'ib_partition', NEW.id, NEW.pkey);
    RETURN NEW;
END $$;
