-- Enqueues nodes, and skips deleted ones. Called by write_maas_regions.
CREATE OR REPLACE FUNCTION farrier.wake_nodes(ids bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO wakes (kind, resource) SELECT 'node', n.id FROM nodes n WHERE n.id = ANY (ids) AND n.status <> 'deleted';
$$;
