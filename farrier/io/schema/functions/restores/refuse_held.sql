-- Refuses a call of the agent of a node that is held after a restore (FR409): the key may have been revoked since the backup.
CREATE OR REPLACE FUNCTION farrier.refuse_held(node bigint, restored boolean DEFAULT farrier.is_restored()) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF restored OR EXISTS (SELECT FROM restore_holds h WHERE h.kind = 'node' AND h.id = node AND h.lifted_at IS NULL) THEN
        RAISE EXCEPTION 'the database was restored from a backup, and node % is held', node
            USING ERRCODE = 'FR409', HINT = 'Repeat the call later; an operator lifts the hold with farrier db lift.';
    END IF;
END $$;
