-- Records the first row of a layer in history: from nothing to its first value, and who caused it. The controller and the epoch
-- of such a row are zero. Runs with the rights of its caller, a function of the owner: no role may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_beginning(kind text, id bigint, version bigint, layer text, value text, cause text, reason text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)
    VALUES ($1, $2, $3, $4, $5, farrier.now(), $6, $7, 'database', '00000000-0000-0000-0000-000000000000', 0);
$$;
