-- Keeps node_observations consistent with the machines of nodes: a node that gets its first or another machine gets a
-- row without a reading; a node without a machine has no row. AFTER INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.watch_machine() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.maas_id IS NULL OR NEW.site IS NULL OR NEW.status = 'deleted' THEN
        DELETE FROM node_observations o WHERE o.node_id = NEW.id AND o.source = 'maas';
    ELSE
        INSERT INTO node_observations AS o (node_id, source, site, system_id, stale_since)
        VALUES (NEW.id, 'maas', NEW.site, NEW.maas_id, farrier.now())
            ON CONFLICT (node_id, source) DO UPDATE
               SET site = excluded.site, system_id = excluded.system_id, stale_since = excluded.stale_since,
                   state = NULL, since = NULL, read_at = NULL, lost_at = NULL, detail = '{}', owner_by_rescue = false;
    END IF;
    RETURN NULL;
END $$;
