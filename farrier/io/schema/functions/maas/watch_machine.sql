-- Gives a node its row in node_observations, without a reading, for its first or another machine; a node without a machine has no
-- row. Called by follow_node.
CREATE OR REPLACE FUNCTION farrier.watch_machine(node bigint, of_site text, machine text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF machine IS NULL OR of_site IS NULL THEN
        DELETE FROM node_observations o WHERE o.node_id = node;
    ELSE
        INSERT INTO node_observations AS o (node_id, site, system_id, stale_since)
        VALUES (node, of_site, machine, farrier.now())
            ON CONFLICT (node_id) DO UPDATE
               SET site = excluded.site, system_id = excluded.system_id, stale_since = excluded.stale_since,
                   state = NULL, since = NULL, read_at = NULL, lost_at = NULL, detail = '{}', owner_by_rescue = false;
    END IF;
END $$;
