-- Intent `set`: what a node was registered with, changed later. Validated by the functions of the registration; written, with
-- a row of history for each value that changed, in the commit that accepts it.

-- The same refusals as `register_node`, when the intent is inserted.
CREATE FUNCTION farrier.validate_set() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM refuse_details(NULL, NULL, coalesce(NEW.params -> 'labels', '{}'), NEW.params ->> 'site', NEW.params ->> 'model');
    PERFORM read_macs(ARRAY(SELECT jsonb_array_elements_text(NEW.params -> 'macs')));
    RETURN NEW;
END $$;
-- Its name comes after that of `validate`, which has seen to the types.
CREATE TRIGGER validate_set BEFORE INSERT ON farrier.intents
    FOR EACH ROW WHEN (NEW.action = 'set') EXECUTE FUNCTION farrier.validate_set();
DROP TRIGGER refuse_machine_id ON farrier.nodes;
CREATE TRIGGER refuse_machine_id BEFORE INSERT OR UPDATE OF maas_id ON farrier.nodes
    FOR EACH ROW WHEN (NEW.maas_id !~ '^[A-Za-z0-9]{1,64}$') EXECUTE FUNCTION farrier.refuse_machine_id();

-- A node's row with these values in place of its own; those named in `unset` are null.
CREATE FUNCTION farrier.with_details(was farrier.nodes, params jsonb) RETURNS farrier.nodes
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    unset jsonb := (SELECT jsonb_object_agg(u, NULL) FROM jsonb_array_elements_text(params -> 'unset') u);
BEGIN
    RETURN jsonb_populate_record(was, (params - 'macs' - 'unset') || coalesce(unset, '{}'));
END $$;

-- What of these values another node has; null for nothing.
CREATE FUNCTION farrier.set_conflict(of_node bigint, params jsonb) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    addresses macaddr[] := read_macs(ARRAY(SELECT jsonb_array_elements_text(params -> 'macs')));
    was nodes;
    becomes nodes;
    found text;
BEGIN
    SELECT format('the MAC address %s belongs to node %s already', m.mac, n.name) INTO found
      FROM node_macs m JOIN nodes n ON n.id = m.node_id
     WHERE m.mac = ANY (addresses) AND m.node_id <> of_node ORDER BY m.mac LIMIT 1;
    IF found IS NOT NULL THEN RETURN found; END IF;
    SELECT n.* INTO was FROM nodes n WHERE n.id = of_node;
    becomes := with_details(was, params);
    RETURN (SELECT format('node %s has MAAS id %s in site %s already', n.name, n.maas_id, coalesce(n.site, '(none)'))
              FROM nodes n
             WHERE n.maas_id = becomes.maas_id AND n.site IS NOT DISTINCT FROM becomes.site AND n.status <> 'deleted' AND n.id <> of_node
             LIMIT 1);
END $$;

-- What `set` may change of a node, as history records it.
CREATE FUNCTION farrier.details_of(node farrier.nodes) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN jsonb_build_object('site', node.site, 'model', node.model, 'labels', node.labels, 'maas_id', node.maas_id,
        'agentless', node.agentless, 'auto_manage', node.auto_manage,
        'macs', (SELECT coalesce(jsonb_agg(m.mac ORDER BY m.mac), '[]') FROM farrier.node_macs m WHERE m.node_id = node.id));

-- Section `details` of a node's commit. A machine that is another one was not made by us.
CREATE FUNCTION farrier.write_details(details jsonb) RETURNS void
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
                             ARRAY[d.cause], ARRAY[d.reason], ARRAY['write_details'], ARRAY[s.claim_token])
           FROM jsonb_each(details_of(becomes)) after JOIN schedule s ON s.kind = 'node' AND s.id = d.run
          WHERE after.value IS DISTINCT FROM before -> after.key;
    END LOOP;
END $$;

SELECT farrier.grant_rights();
