-- Returns the devices that the machine of a node should have, for its snapshot (farrier.model.node.evidence.Expected). The disks are those
-- that MAAS knows or, without a machine in MAAS, those in the facts of the agent; the GPUs are those in the facts of the agent. A key
-- is missing if no source reports its devices. In PL/pgSQL for the reason given at is_restored.
CREATE OR REPLACE FUNCTION farrier.expected_devices(node bigint, machine text) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN (WITH told AS (
        SELECT (SELECT d.disks FROM machine_disks d WHERE (d.node_id, d.system_id) = (node, machine)) AS by_maas,
               (SELECT a.facts FROM node_agents a WHERE a.node_id = node) AS facts
    )
    SELECT jsonb_strip_nulls(jsonb_build_object('disks', coalesce(t.by_maas, parts_of(t.facts -> 'disks')), 'gpus', parts_of(t.facts -> 'gpus')))
      FROM told t);
END $$;
