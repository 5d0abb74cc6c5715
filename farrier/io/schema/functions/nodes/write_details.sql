-- Writes section `details` of a commit of nodes: the values of intent `set`, with a row of history for each that changes. A node
-- that gets another MAAS id loses the mark that farrier created its machine. Updates only the columns that the values
-- name. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_details(details jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    d record;
    was nodes;
    before jsonb;
BEGIN
    FOR d IN SELECT r.*, given_details(r.params) AS given
               FROM jsonb_to_recordset(details) r (run bigint, params jsonb, cause text, reason text) ORDER BY r.run LOOP
        SELECT n.* INTO was FROM nodes n WHERE n.id = d.run;
        before := details_of(was);
        IF d.given - 'macs' <> '{}' THEN
            EXECUTE (SELECT format('UPDATE nodes n SET %s FROM jsonb_populate_record(NULL::nodes, $1) r WHERE n.id = $2',
                                   string_agg(format('%1$I = r.%1$I', k), ', ')) FROM jsonb_object_keys(d.given - 'macs') k)
              USING d.given, d.run;
            UPDATE nodes n SET maas_created = false WHERE n.id = d.run AND n.maas_created AND n.maas_id IS DISTINCT FROM was.maas_id;
        END IF;
        IF d.given ? 'macs' THEN
            DELETE FROM node_macs m WHERE m.node_id = d.run;
            INSERT INTO node_macs (mac, node_id) SELECT DISTINCT a, d.run FROM unnest(read_macs(d.given -> 'macs')) a;
        END IF;
        PERFORM record_moves('node', s.owner, '{}', ARRAY[n.id], ARRAY[was.version], ARRAY[NULL::float8], '{1}', ARRAY['details.' || after.key],
                             ARRAY[before ->> after.key], ARRAY[coalesce(after.value #>> '{}', '(none)')], ARRAY[d.cause], ARRAY[d.reason],
                             ARRAY['write_details'])
           FROM nodes n CROSS JOIN jsonb_each(details_of(n)) after JOIN shards s ON s.kind = 'node' AND s.shard = shard_of(n.id)
          WHERE n.id = d.run AND after.value IS DISTINCT FROM before -> after.key;
    END LOOP;
END $$;
