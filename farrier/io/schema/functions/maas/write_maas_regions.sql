-- Writes the regions of a commit and the readings of their machines; the writer of kind maas_region. Enqueues the nodes that the
-- readings affect. Sections besides those of write_resources: `readings`, `unknown` [{run, at}] for regions that may have lost
-- events, `named` [{run, system_id, at, status_changed}] for machines that events name. Writes events before readings,
-- because farrier reads machines after it reads events.
CREATE OR REPLACE FUNCTION farrier.write_maas_regions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    unwritten bigint[];
    dues interval[];
BEGIN
    SELECT array_agg(w.run), array_agg(w.due_in) INTO unwritten, dues FROM farrier.write_resources(changes) w;
    IF unwritten IS NOT NULL THEN
        RETURN QUERY SELECT u.run, u.due_in FROM unnest(unwritten, dues) u (run, due_in);
        changes := farrier.runs_without(changes, unwritten);
    END IF;
    IF changes ? 'readings' THEN
        PERFORM farrier.wake_nodes(farrier.affected_nodes(changes -> 'readings'));
    END IF;
    IF changes ? 'unknown' THEN
        UPDATE farrier.node_observations o SET stale_since = c.at
          FROM jsonb_to_recordset(changes -> 'unknown') c (run bigint, at timestamptz) JOIN farrier.maas_regions r ON r.id = c.run
         WHERE o.site = r.site AND o.stale_since IS NULL;
    END IF;
    IF changes ? 'named' THEN
        UPDATE farrier.node_observations o SET stale_since = c.at
          FROM jsonb_to_recordset(changes -> 'named') c (run bigint, system_id text, at timestamptz, status_changed boolean)
          JOIN farrier.maas_regions r ON r.id = c.run
         WHERE o.site = r.site AND o.system_id = c.system_id
           AND (c.status_changed OR EXISTS (SELECT FROM farrier.maas_motion m WHERE m.node_id = o.node_id));
    END IF;
    IF changes ? 'readings' THEN
        UPDATE farrier.node_observations o
           SET state = c.state, since = CASE WHEN o.state = c.state THEN o.since ELSE c.read_at END, read_at = c.read_at,
               stale_since = CASE WHEN o.stale_since > c.read_at THEN o.stale_since END, detail = c.detail,
               owner_by_rescue = coalesce(c.in_rescue OR (o.owner_by_rescue AND o.detail ->> 'owner' = c.detail ->> 'owner'), false),
               lost_at = CASE WHEN c.state <> 'absent' THEN NULL
                              WHEN o.state <> 'absent' AND NOT EXISTS (SELECT FROM farrier.nodes n WHERE n.id = o.node_id AND n.live_workflow_kind = 'decommission')
                              THEN c.read_at ELSE o.lost_at END
          FROM jsonb_to_recordset(changes -> 'readings') c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb, in_rescue boolean)
         WHERE o.node_id = c.node AND o.system_id = c.system_id
           AND (o.read_at IS NULL OR o.read_at <= c.read_at);
        INSERT INTO farrier.machine_disks AS d (node_id, system_id, disks)
        SELECT c.node, c.system_id, c.disks
          FROM jsonb_to_recordset(changes -> 'readings') c (node bigint, system_id text, disks jsonb)
          JOIN farrier.node_observations o ON (o.node_id, o.system_id) = (c.node, c.system_id)
          LEFT JOIN farrier.machine_disks known ON known.node_id = c.node
         WHERE jsonb_typeof(c.disks) = 'array' AND (known.system_id, known.disks) IS DISTINCT FROM (c.system_id, c.disks)
            ON CONFLICT (node_id) DO UPDATE SET system_id = excluded.system_id, disks = excluded.disks;
    END IF;
END $$;
