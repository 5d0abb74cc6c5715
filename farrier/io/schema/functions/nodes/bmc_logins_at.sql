-- What other nodes tried at this address; null for nothing.
CREATE OR REPLACE FUNCTION farrier.bmc_logins_at(address text, except_node bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT jsonb_agg(jsonb_build_object('at', l.at, 'open', l.open)) FROM farrier.bmc_logins l
             WHERE l.endpoint = farrier.bmc_endpoint_of(address) AND l.node_id <> except_node);
