-- Marks steps that are about to begin, at most one for each resource, and removes the marks of ended steps; for these resources, it
-- also removes marks of former owners. Returns the marked resources. Skips shards that this controller does not own under these
-- epochs. A controller that takes a shard recovers from the steps whose marks it finds. A statement whose connection
-- was lost may run after a later statement: its number is lower, so it does nothing.
CREATE OR REPLACE FUNCTION farrier.mark_steps(
    of_kind text, of_controller uuid, of_shards smallint[], epochs bigint[], of_number bigint, begun bigint[], names text[],
    ended bigint[])
    RETURNS SETOF bigint
    LANGUAGE plpgsql AS $$
DECLARE
    held smallint[];
    gone text[];
BEGIN
    PERFORM farrier.on_disk();
    held := farrier.hold_shards(of_kind, of_controller, of_shards, epochs);
    gone := ARRAY(SELECT id::text FROM unnest(begun || ended) id WHERE farrier.shard_of(id) = ANY (held));
    -- This statement is the first because it compares the numbers and locks the row, so that calls run one after the
    -- other.
    INSERT INTO farrier.marks AS m (controller, kind, number, steps)
    SELECT of_controller, of_kind, of_number,
           coalesce(jsonb_object_agg(b.id, jsonb_build_object('step', b.name, 'begun_at', farrier.now())), '{}')
      FROM unnest(begun, names) b (id, name) WHERE farrier.shard_of(b.id) = ANY (held)
        ON CONFLICT (controller, kind) DO UPDATE SET number = excluded.number, steps = (m.steps - gone) || excluded.steps
     WHERE m.number < excluded.number;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF gone <> '{}' AND EXISTS (SELECT FROM farrier.marks m WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps ?| gone) THEN
        PERFORM FROM farrier.marks m WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps ?| gone ORDER BY m.controller FOR UPDATE;
        UPDATE farrier.marks m SET steps = m.steps - gone WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps ?| gone;
        -- Keeps the row of a living controller, whose number later statements compare.
        DELETE FROM farrier.marks m
         WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps = '{}'
           AND NOT EXISTS (SELECT FROM farrier.controllers c WHERE c.id = m.controller AND NOT c.expired);
    END IF;
    RETURN QUERY SELECT id FROM unnest(begun) id WHERE farrier.shard_of(id) = ANY (held);
END $$;
