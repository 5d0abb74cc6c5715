-- Returns the logins of other nodes at this BMC address that may have failed, as JSON; null if there are none.
CREATE OR REPLACE FUNCTION farrier.bmc_logins_at(address text, except_node bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT jsonb_agg(jsonb_build_object('at', l.at, 'open', l.open)) FROM farrier.bmc_logins l
             WHERE l.endpoint = farrier.bmc_endpoint_of(address) AND l.node_id <> except_node);
