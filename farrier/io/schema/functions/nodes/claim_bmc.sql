-- Records in node_bmcs which BMC a node claims by its address; a node without an address claims none. The constraint node_bmcs_one
-- refuses an address that overlaps another node's. Called by follow_node.
CREATE OR REPLACE FUNCTION farrier.claim_bmc(node bigint, address text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF address IS NULL THEN
        DELETE FROM node_bmcs b WHERE b.node_id = node;
    ELSE
        INSERT INTO node_bmcs AS b VALUES (node, bmc_span_of(address)) ON CONFLICT (node_id) DO UPDATE SET span = excluded.span;
    END IF;
END $$;
