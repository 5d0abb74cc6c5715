-- Returns the last reading of a node's machine in MAAS for its snapshot (farrier.model.machine.observation); null without a reading. Readings
-- from before the region's `since` are ignored. `ours` is null while the user of the region's key is unknown. The identity
-- of the machine stays out of the snapshot; only other_machine compares it. In PL/pgSQL for the reason given at is_restored.
CREATE OR REPLACE FUNCTION farrier.maas_observation(node_id bigint, system_id text, site text) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT (o.detail - '{hardware_uuid,hardware_info}'::text[]) || jsonb_build_object(
                       'system_id', o.system_id, 'state', o.state, 'since', o.since, 'read_at', o.read_at, 'owner_by_rescue', o.owner_by_rescue,
                       'fresh_at', CASE WHEN o.stale_since IS NULL THEN greatest(o.read_at, r.complete_at) ELSE o.read_at END,
                       'ours', CASE WHEN r.username IS NOT NULL THEN coalesce(o.detail ->> 'owner' = r.username, false) END)
              FROM farrier.node_observations o LEFT JOIN farrier.maas_regions r ON r.name = $3 AND r.ended_at IS NULL
             WHERE o.node_id = $1 AND o.system_id = $2
               AND o.read_at >= coalesce(r.since, '-infinity'));
END $$;
