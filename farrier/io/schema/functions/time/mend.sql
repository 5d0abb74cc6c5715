-- Mends one batch of at most at_most rows after the oldest setback in mends: replaces stored times later than farrier.now(). The time
-- of a past event becomes now, from which limits count; the time of a future event becomes earlier by the length of the setback.
-- Returns whether rows are left and, once a setback is finished, its length in done. Controllers call it until no rows
-- are left. One session works at a time, and other sessions return at once; after a session dies, the next session
-- continues from the progress in mends.
CREATE OR REPLACE FUNCTION farrier.mend(at_most integer, OUT more boolean, OUT done interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
    mend mends;
    one record;
    ids bigint[];
    last bigint;
BEGIN
    more := false;
    SELECT * INTO mend FROM mends m WHERE m.id = (SELECT min(id) FROM mends) FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT * INTO one FROM mendable() m
     WHERE m.place COLLATE "C" > mend.place OR m.place = mend.place AND mend.after IS NOT NULL
     ORDER BY m.place COLLATE "C" LIMIT 1;
    IF NOT FOUND THEN
        DELETE FROM mends m WHERE m.id = mend.id;
        done := mend.back;
    ELSIF one.kind IS NOT NULL THEN
        EXECUTE format('SELECT array_agg(id), max(id) FROM (SELECT id FROM %s WHERE id > $1 ORDER BY id LIMIT $2) r', one.relation)
           INTO ids, last USING CASE WHEN one.place = mend.place THEN mend.after ELSE 0 END, at_most;
        PERFORM mend_rows(one.kind, one.relation, ids, one.changes, one.wrong, now, mend.back);
        UPDATE mends m SET place = one.place, after = CASE WHEN cardinality(ids) = at_most THEN last END WHERE m.id = mend.id;
    ELSE
        EXECUTE format('WITH changed AS (UPDATE %1$s SET %2$s WHERE ctid = ANY (ARRAY(
                                SELECT ctid FROM %1$s WHERE %3$s LIMIT $4 FOR NO KEY UPDATE)) RETURNING 1)
                        SELECT count(*) FROM changed', one.relation, one.changes, one.wrong)
           INTO last USING now, mend.back, mend.noticed, at_most;
        UPDATE mends m SET place = one.place, after = CASE WHEN last = at_most THEN 0 END WHERE m.id = mend.id;
    END IF;
    more := EXISTS (SELECT FROM mends);
END $$;
