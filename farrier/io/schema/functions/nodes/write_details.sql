-- Writes section `details` of a commit of nodes: the values of intent `set`, with a row of history for each that changes. A node
-- that gets another MAAS id loses the mark that farrier created its machine. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_details(details jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    d record;
    was nodes;
    becomes nodes;
    before jsonb;
BEGIN
    FOR d IN SELECT * FROM jsonb_to_recordset(details) r (run bigint, params jsonb, cause text, reason text) ORDER BY r.run LOOP
        SELECT n.* INTO was FROM nodes n WHERE n.id = d.run;
        before := details_of(was);
        becomes := with_details(was, d.params);
        UPDATE nodes n
           SET site = becomes.site, model = becomes.model, labels = becomes.labels, maas_id = becomes.maas_id,
               maas_created = n.maas_created AND n.maas_id IS NOT DISTINCT FROM becomes.maas_id,
               agentless = becomes.agentless, auto_manage = becomes.auto_manage
         WHERE n.id = d.run;
        IF d.params ? 'macs' THEN
            DELETE FROM node_macs m WHERE m.node_id = d.run;
            INSERT INTO node_macs (mac, node_id)
            SELECT DISTINCT a, d.run FROM unnest(read_macs(ARRAY(SELECT jsonb_array_elements_text(d.params -> 'macs')))) a;
        END IF;
        PERFORM record_moves('node', s.owner, NULL, ARRAY[d.run], ARRAY[was.version], ARRAY['details.' || after.key],
                             ARRAY[before ->> after.key], ARRAY[coalesce(after.value #>> '{}', '(none)')], ARRAY[NULL::timestamptz],
                             ARRAY[d.cause], ARRAY[d.reason], ARRAY['write_details'])
           FROM jsonb_each(details_of(becomes)) after JOIN shards s ON s.kind = 'node' AND s.shard = shard_of(d.run)
          WHERE after.value IS DISTINCT FROM before -> after.key;
    END LOOP;
END $$;
