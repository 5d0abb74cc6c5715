-- Marks steps that are about to change something outside, one for each resource, and returns those that were marked: not those of
-- shards that this controller does not own under these epochs. A controller that finds a mark without a step recovers first.
CREATE OR REPLACE FUNCTION farrier.mark_effects(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], ids bigint[], steps text[]) RETURNS SETOF bigint
    LANGUAGE plpgsql AS $$
DECLARE
    held smallint[] := farrier.hold_shards(of_kind, controller, of_shards, epochs);
BEGIN
    PERFORM farrier.on_disk();
    RETURN QUERY
    INSERT INTO farrier.effects AS e (kind, resource, epoch, step)
    SELECT of_kind, r.id, o.epoch, r.step
      FROM unnest(ids, steps) r (id, step) JOIN unnest(of_shards, epochs) o (shard, epoch) ON o.shard = farrier.shard_of(r.id)
     WHERE o.shard = ANY (held)
     ORDER BY r.id
        ON CONFLICT (kind, resource) DO UPDATE SET epoch = excluded.epoch, step = excluded.step, begun_at = farrier.now()
    RETURNING e.resource;
END $$;
