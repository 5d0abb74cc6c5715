-- Records the first value of each layer of a resource in history, with its cause and the client that asked for it. `new` has id, version,
-- and the value of each layer by its name. The rows have no from_value, and their controller and epoch are zero. SECURITY DEFINER
-- functions call it: no role of farrier may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_beginning(of_kind text, new jsonb, cause text, reason text, requested_by text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, requested_by, source, controller, epoch)
    SELECT $1, ($2 ->> 'id')::bigint, ($2 ->> 'version')::bigint, l.layer, $2 ->> l.layer, farrier.now(), $3, $4, $5, 'database',
           '00000000-0000-0000-0000-000000000000', 0
      FROM farrier.kind_layers l WHERE l.kind = $1 AND $2 ->> l.layer IS NOT NULL;
$$;
