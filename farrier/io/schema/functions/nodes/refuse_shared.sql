-- Refuses a BMC address or a MAC address that another node has (unique_violation, with that node's name). Called by
-- register_node.
CREATE OR REPLACE FUNCTION farrier.refuse_shared(address text, macs macaddr[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    other text := bmc_holder(address, NULL);
    shared macaddr;
BEGIN
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'the BMC % already belongs to node %', address, other
            USING ERRCODE = 'unique_violation',
                  HINT = 'For several nodes behind one BMC, add the path of each node''s system: https://bmc/redfish/v1/Systems/2.';
    END IF;
    SELECT m.mac, n.name INTO shared, other FROM node_macs m JOIN nodes n ON n.id = m.node_id WHERE m.mac = ANY (macs) ORDER BY m.mac LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the MAC address % already belongs to node %', shared, other
            USING ERRCODE = 'unique_violation', HINT = 'Correct the address, or delete the other node first.';
    END IF;
END $$;
