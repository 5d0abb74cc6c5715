-- Records in history the moves of resources whose shards this controller owns; FR409 for any other resource. The elements of the
-- arrays with the same position are one move; the layer entered from_value at `since`, in seconds since 1970.
-- `texts` has the place of the texts of the move in the arrays that follow, because many moves of a commit have the same texts. Skips the
-- moves of the runs in `without`. The client that asked for a move is that of the intent, or the one that lifted the hold after a restore.
-- Called by end_commit and write_details. Runs as the owner, because no role may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_moves(
    of_kind text, controller uuid, without bigint[], runs bigint[], versions bigint[], since float8[], texts integer[],
    layers text[], from_values text[], to_values text[], causes text[], reasons text[], sources text[])
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    moved bigint[] := CASE WHEN without = '{}' THEN runs ELSE ARRAY(SELECT r FROM unnest(runs) r WHERE r <> ALL (without)) END;
    recorded bigint;
BEGIN
    INSERT INTO history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, requested_by, reason, source, controller, epoch)
    SELECT of_kind, r.run, r.version, layers[r.t], from_values[r.t], to_values[r.t], farrier.now(),
           CASE WHEN r.since IS NOT NULL THEN date_part('epoch', greatest(farrier.now() - to_timestamp(r.since), '0')) END, causes[r.t],
           CASE WHEN causes[r.t] ~ '^intent [0-9]{1,18}$' THEN (
                SELECT i.requested_by FROM all_intents i WHERE i.kind = of_kind AND i.id = substr(causes[r.t], 8)::bigint)
                WHEN causes[r.t] = 'restore' THEN (
                SELECT h.lifted_by FROM restore_holds h WHERE (h.kind, h.id) = (of_kind, r.run)) END,
           reasons[r.t], sources[r.t], s.owner, s.epoch
      FROM unnest(runs, versions, since, texts) r (run, version, since, t)
      JOIN shards s ON s.kind = of_kind AND s.shard = shard_of(r.run) AND s.owner = record_moves.controller
     WHERE r.run <> ALL (without);
    GET DIAGNOSTICS recorded = ROW_COUNT;
    IF recorded < cardinality(moved) THEN
        RAISE EXCEPTION 'history can only be recorded for resources in shards of this controller'
            USING ERRCODE = 'FR409', HINT = 'farrier.end_commit records history.';
    END IF;
END $$;
