-- Records in history the moves of resources whose shards this controller owns; FR409 for any other resource. `moves` is
-- [{run, version, layer, from_value, to_value, entered, cause, reason, source}]; the layer entered from_value at
-- `entered`. Called by end_commit and write_details. Runs as the owner, because no role may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_moves(of_kind text, controller uuid, moves jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    recorded bigint;
BEGIN
    INSERT INTO history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, epoch)
    SELECT of_kind, r.run, r.version, r.layer, r.from_value, r.to_value, farrier.now(),
           CASE WHEN r.entered IS NOT NULL THEN extract(epoch FROM greatest(farrier.now() - r.entered, '0')) END, r.cause, r.reason, r.source,
           s.owner, s.epoch
      FROM jsonb_to_recordset(moves) r (
           run bigint, version bigint, layer text, from_value text, to_value text, entered timestamptz, cause text, reason text, source text)
      JOIN shards s ON s.kind = of_kind AND s.shard = shard_of(r.run) AND s.owner = record_moves.controller;
    GET DIAGNOSTICS recorded = ROW_COUNT;
    IF recorded < jsonb_array_length(moves) THEN
        RAISE EXCEPTION 'history can only be recorded for resources in shards of this controller'
            USING ERRCODE = 'FR409', HINT = 'farrier.end_commit records history.';
    END IF;
END $$;
