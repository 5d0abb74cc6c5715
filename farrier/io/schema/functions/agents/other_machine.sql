-- Returns how the machine with these identities, which the node's agent reports (identities_of_agent), differs from the machine that
-- the node's BMC recorded, or from its machine in MAAS, or null. A value proves something only if it is an identity (identity_keys). Manufacturers
-- are ignored, because firmware and system spell them differently. One equal value proves the machine: firmware and system may report
-- different serial numbers. Called by refuse_machine, and by the load of a node whose three machines may differ, because each of the
-- three may be read last.
CREATE OR REPLACE FUNCTION farrier.other_machine(of_node bigint, identities jsonb) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    bmc  jsonb := (SELECT n.bmc FROM nodes n WHERE n.id = of_node);
    maas jsonb := (SELECT o.detail FROM node_observations o WHERE o.node_id = of_node);
    maas_serial text := maas -> 'hardware_info' ->> 'system_serial';
BEGIN
    IF identities = '{}' THEN RETURN NULL; END IF;
    RETURN (
        WITH keys AS (
            SELECT 'the agent' AS source, i.key AS kind, i.value FROM jsonb_each_text(identities) i
             UNION ALL
            SELECT s.source, k.kind, CASE k.kind WHEN 'serial' THEN substr(k.value, 2) ELSE k.value END
              FROM (VALUES ('the BMC', bmc ->> 'serial', bmc ->> 'uuid'),
                           ('MAAS', maas_serial, maas ->> 'hardware_uuid')) s (source, serial, uuid)
             CROSS JOIN LATERAL identity_keys(s.serial, s.uuid, NULL, '[]') k
             WHERE s.serial IS NOT NULL OR s.uuid IS NOT NULL
        ), differences AS (
            SELECT r.source, string_agg(format('%s %s instead of %s', CASE t.kind WHEN 'uuid' THEN 'UUID' ELSE t.kind END, t.value, r.value), ' and ' ORDER BY t.kind) AS what
              FROM keys t JOIN keys r ON r.kind = t.kind AND r.source <> t.source
             WHERE t.source = 'the agent' GROUP BY r.source HAVING NOT bool_or(t.value = r.value)
        )
        SELECT 'the agent reports ' || string_agg(format('%s, which %s reports', d.what, d.source), '; and ' ORDER BY d.source DESC) FROM differences d);
END $$;
