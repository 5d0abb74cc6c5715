-- VLAN and VNI: the one that was given, or the pool's next. A segment may have one from before there was a pool: then this
-- one keeps it from others in the pool, until either of them ends, and goes on to the next. No segment is locked for that:
-- the loop would wait for whoever creates. Whoever else is about to make a segment with the number is waited for.
CREATE OR REPLACE FUNCTION farrier.take_segment_number(of_pool text, of_column text, for_site text, for_id bigint, wanted integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    pooled boolean := EXISTS (SELECT FROM number_pools p WHERE p.pool = of_pool);
    taken integer := wanted;
    holder text;
BEGIN
    IF wanted IS NULL AND NOT pooled THEN RETURN NULL; END IF;
    LOOP
        IF pooled THEN taken := take_number(of_pool, 'network_segment', for_id, wanted); END IF;
        holder := who_has_number(of_column, for_site, taken);
        IF holder IS NULL THEN
            PERFORM lock_keys('segment_number', ARRAY[format('%s:%s', of_pool, taken)]);
            holder := who_has_number(of_column, for_site, taken);
            IF holder IS NULL THEN RETURN taken; END IF;
        END IF;
        IF wanted IS NOT NULL THEN
            RAISE EXCEPTION '% % is taken by segment %', upper(of_column), wanted, holder
                USING ERRCODE = 'FR409', HINT = 'Leave it out to get one of the pool, if there is one.';
        END IF;
    END LOOP;
END $$;
