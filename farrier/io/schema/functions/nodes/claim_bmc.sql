-- Keeps node_bmcs consistent with the BMC addresses of nodes; a deleted node claims none. The constraint node_bmcs_one refuses an
-- address that overlaps another node's. AFTER INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.claim_bmc() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.bmc_address IS NULL OR NEW.status = 'deleted' THEN
        DELETE FROM node_bmcs b WHERE b.node_id = NEW.id;
    ELSE
        INSERT INTO node_bmcs AS b VALUES (NEW.id, bmc_span_of(NEW.bmc_address))
            ON CONFLICT (node_id) DO UPDATE SET span = excluded.span;
    END IF;
    RETURN NULL;
END $$;
