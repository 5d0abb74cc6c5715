-- Returns how the machine of these facts ({serial, uuid}) differs from the machine that the node's BMC recorded, or null. A value
-- proves something only if it is an identity (identity_keys). Manufacturers are ignored, because firmware and system spell
-- them differently. One equal value proves the machine: firmware and system may report different serial numbers. Called
-- by enroll_agent.
CREATE OR REPLACE FUNCTION farrier.other_machine(of_node bigint, facts jsonb) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH recorded AS (
        SELECT k.kind, split_part(k.value, '/', 2 - (k.kind <> 'serial')::integer) AS value
          FROM nodes n CROSS JOIN LATERAL identity_keys_of_bmc(n.bmc) k WHERE n.id = of_node AND k.kind <> 'mac'
    ), told AS (
        SELECT k.kind, split_part(k.value, '/', 2 - (k.kind <> 'serial')::integer) AS value
          FROM identity_keys(left(facts ->> 'serial', 200), left(facts ->> 'uuid', 200), NULL, '[]') k
    )
    SELECT 'the agent reports ' || string_agg(format('%s %s instead of %s', CASE t.kind WHEN 'uuid' THEN 'UUID' ELSE t.kind END, t.value, r.value), ' and ' ORDER BY t.kind)
      FROM told t JOIN recorded r USING (kind)
    HAVING NOT bool_or(t.value = r.value)
$$;
