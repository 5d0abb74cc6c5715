-- Returns how the machine on which a node's agent runs differs from the node's, or null; see other_machine, which is called only if no
-- identity of the agent is recorded for the node, or if a value of MAAS differs. Called by the load of a node whose machines may differ.
CREATE OR REPLACE FUNCTION farrier.another_machine(of_node bigint, identities jsonb, uuid text) RETURNS text
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
BEGIN
    IF (SELECT NOT bool_or(identities ->> i.kind = CASE i.kind WHEN 'serial' THEN substr(i.value, strpos(i.value, '/') + 1) ELSE i.value END)
          FROM farrier.node_identities i WHERE i.node_id = of_node AND identities ? i.kind)
       OR (SELECT identities ->> 'serial' <> lower(o.detail -> 'hardware_info' ->> 'system_serial')
                  OR identities ? 'uuid' AND lower(uuid) <> lower(o.detail ->> 'hardware_uuid')
             FROM farrier.nodes n JOIN farrier.node_observations o ON o.node_id = n.id WHERE n.id = of_node AND n.maas_id IS NOT NULL) THEN
        RETURN farrier.other_machine(of_node, identities);
    END IF;
    RETURN NULL;
END $$;
