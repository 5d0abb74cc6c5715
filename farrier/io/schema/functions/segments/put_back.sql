-- Adds an address to the free ranges of its prefix, merged with the ranges that it touches. The caller has locked segment_usage.
CREATE OR REPLACE FUNCTION farrier.put_back(of_segment bigint, of_prefix cidr, back inet) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    low inet := back;
    next farrier.segment_free;
BEGIN
    -- The prefix has no address before its first one, and none after its last one.
    IF back > host(network(of_prefix))::inet THEN
        DELETE FROM farrier.segment_free f WHERE f.segment = of_segment AND f.last = back - 1 AND f.prefix = of_prefix
        RETURNING f.first INTO low;
        low := coalesce(low, back);
    END IF;
    IF back < host(broadcast(of_prefix))::inet THEN
        SELECT * INTO next FROM farrier.segment_free f WHERE f.segment = of_segment AND f.last > back ORDER BY f.last LIMIT 1;
        IF next.prefix = of_prefix AND next.first = back + 1 THEN
            UPDATE farrier.segment_free f SET first = low WHERE f.segment = of_segment AND f.last = next.last;
            RETURN;
        END IF;
    END IF;
    INSERT INTO farrier.segment_free VALUES (of_segment, of_prefix, low, back);
END $$;
