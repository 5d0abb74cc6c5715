-- Writes the regions of a commit and what was read of their machines; the writer of kind maas_region. Enqueues the nodes that the
-- readings affect. Sections: `runs`, `regions`, `readings`, `unknown` [{run, at}] for regions that may have lost events, `named`
-- [{run, system_id, at, status_changed}] for machines that events name. Events are written before readings, which were made after
-- them. Locks the regions in the order of ids.
CREATE OR REPLACE FUNCTION farrier.write_maas_regions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    fit bigint[] := ARRAY(
        SELECT r.id FROM farrier.maas_regions r
          JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint, version bigint) ON c.run = r.id AND c.version = r.version
         ORDER BY r.id FOR NO KEY UPDATE OF r);
BEGIN
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
        RETURN QUERY SELECT c.run, interval '0' FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (fit);
        changes := farrier.filter_runs(changes, fit);
    END IF;
    UPDATE farrier.maas_regions r SET version = r.version + 1
      FROM jsonb_to_recordset(changes -> 'runs') c (run bigint, writes boolean)
     WHERE r.id = c.run AND c.writes;
    IF changes ? 'regions' THEN
        UPDATE farrier.maas_regions r
           SET version = r.version + 1, state = c.state,
               state_entered_at = CASE WHEN r.state = c.state THEN r.state_entered_at ELSE farrier.now() END,
               username = c.username, identified_at = c.identified_at, cursor = c.cursor, complete_at = c.complete_at,
               swept_at = c.swept_at, last_error = c.last_error, failure = c.failure, failures = c.failures,
               next_try_at = c.next_try_at, unreadable = c.unreadable, configured_at = c.configured_at,
               -- Earlier readings were made with the key of another user.
               since = CASE WHEN r.username <> c.username THEN c.identified_at ELSE r.since END
          FROM jsonb_populate_recordset(NULL::farrier.maas_regions, changes -> 'regions') c
         WHERE r.id = c.id;
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
               lost_at = CASE WHEN c.state <> 'absent' THEN NULL
                              WHEN o.state <> 'absent' AND NOT EXISTS (SELECT FROM farrier.nodes n WHERE n.id = o.node_id AND n.live_workflow_kind = 'decommission')
                              THEN c.read_at ELSE o.lost_at END
          FROM jsonb_to_recordset(changes -> 'readings') c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb)
         WHERE o.node_id = c.node AND o.source = 'maas' AND o.system_id = c.system_id
           AND (o.read_at IS NULL OR o.read_at <= c.read_at);
    END IF;
END $$;
