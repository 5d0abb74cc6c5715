-- Records in history the moves of resources whose shards this controller owns; FR409 for any other resource. `won` limits the
-- moves to these runs; null: all. Called by commit_runs and write_details. Runs as the owner, because no role may insert into
-- history.
CREATE OR REPLACE FUNCTION farrier.record_moves(
    of_kind text, controller uuid, won bigint[], moved bigint[], versions bigint[], layers text[], from_values text[], to_values text[],
    entered timestamptz[], causes text[], reasons text[], sources text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    recorded bigint;
    wanted bigint;
BEGIN
    INSERT INTO history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, epoch)
    SELECT of_kind, r.id, r.version, r.layer, r.from_value, r.to_value, farrier.now(),
           CASE WHEN r.entered IS NOT NULL THEN extract(epoch FROM greatest(farrier.now() - r.entered, '0')) END, r.cause, r.reason, r.source,
           s.owner, s.epoch
      FROM unnest(moved, versions, layers, from_values, to_values, record_moves.entered, causes, reasons, sources)
           AS r (id, version, layer, from_value, to_value, entered, cause, reason, source)
      JOIN shards s ON s.kind = of_kind AND s.shard = shard_of(r.id) AND s.owner = record_moves.controller
     WHERE won IS NULL OR r.id = ANY (won);
    GET DIAGNOSTICS recorded = ROW_COUNT;
    wanted := cardinality(moved);
    IF won IS NOT NULL THEN
        wanted := (SELECT count(*) FROM unnest(moved) m (id) WHERE m.id = ANY (won));
    END IF;
    IF recorded < wanted THEN
        RAISE EXCEPTION 'history can only be recorded for resources in shards of this controller'
            USING ERRCODE = 'FR409', HINT = 'farrier.commit_runs records history.';
    END IF;
END $$;
