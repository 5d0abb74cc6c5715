-- Returns the name of another node whose BMC address overlaps this address (bmc_span_of); null if there is none.
CREATE OR REPLACE FUNCTION farrier.bmc_holder(address text, except_node bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT min(n.name) FROM farrier.node_bmcs b JOIN farrier.nodes n ON n.id = b.node_id
             WHERE b.span && farrier.bmc_span_of(address) AND b.node_id IS DISTINCT FROM except_node);
