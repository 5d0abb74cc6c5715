-- Removes one address from a range of free ones. The caller has locked segment_usage.
CREATE OR REPLACE FUNCTION farrier.take_from(gap farrier.segment_free, taken inet) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF gap.first = gap.last THEN
        DELETE FROM farrier.segment_free f WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSIF taken = gap.first THEN
        UPDATE farrier.segment_free f SET first = taken + 1 WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSIF taken = gap.last THEN
        UPDATE farrier.segment_free f SET last = taken - 1 WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSE
        UPDATE farrier.segment_free f SET first = taken + 1 WHERE f.segment = gap.segment AND f.last = gap.last;
        INSERT INTO farrier.segment_free VALUES (gap.segment, gap.prefix, gap.first, taken - 1);
    END IF;
END $$;
