-- Returns how the machine of these facts ({serial, uuid}) differs from the machine that the node's BMC recorded, or from its machine in
-- MAAS, or null. A value proves something only if it is an identity (identity_keys). Manufacturers are ignored, because
-- firmware and system spell them differently. One equal value proves the machine: firmware and system may report different
-- serial numbers. Called by refuse_machine.
CREATE OR REPLACE FUNCTION farrier.other_machine(of_node bigint, facts jsonb) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH keys AS (
        SELECT 'the agent' AS source, k.kind, k.value FROM identity_keys(left(facts ->> 'serial', 200), left(facts ->> 'uuid', 200), NULL, '[]') k
         UNION ALL
        SELECT 'the BMC', k.kind, k.value FROM nodes n CROSS JOIN LATERAL identity_keys_of_bmc(n.bmc) k WHERE n.id = of_node
         UNION ALL
        SELECT 'MAAS', k.kind, k.value
          FROM node_observations o
         CROSS JOIN LATERAL identity_keys(o.detail -> 'hardware_info' ->> 'system_serial', o.detail ->> 'hardware_uuid', NULL, '[]') k
         WHERE o.node_id = of_node
    ), without_manufacturer AS (
        SELECT k.source, k.kind, CASE k.kind WHEN 'serial' THEN substr(k.value, strpos(k.value, '/') + 1) ELSE k.value END AS value FROM keys k
    ), differences AS (
        SELECT r.source, string_agg(format('%s %s instead of %s', CASE t.kind WHEN 'uuid' THEN 'UUID' ELSE t.kind END, t.value, r.value), ' and ' ORDER BY t.kind) AS what
          FROM without_manufacturer t JOIN without_manufacturer r ON r.kind = t.kind AND r.source <> t.source
         WHERE t.source = 'the agent' GROUP BY r.source HAVING NOT bool_or(t.value = r.value)
    )
    SELECT 'the agent reports ' || string_agg(format('%s, which %s reports', d.what, d.source), '; and ' ORDER BY d.source DESC) FROM differences d
$$;
