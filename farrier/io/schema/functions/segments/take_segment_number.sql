-- Takes the VLAN or VNI of a new segment and returns it: the wanted number, or the next number of the pool; null if
-- there is neither. A segment may have a number from before the pool was created. The pool then records that number
-- under the new segment, which takes the next one, and free_segment_numbers releases it when either of the two segments
-- ends. Locks the number (lock_keys, purpose segment_number) and no segment, because commits of the controller would
-- wait for a client that creates a segment. FR409 for a wanted number that a segment has.
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
                USING ERRCODE = 'FR409', HINT = 'Omit the number to get one from the pool, if there is a pool.';
        END IF;
    END LOOP;
END $$;
