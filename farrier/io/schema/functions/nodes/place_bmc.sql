-- Kept in the node's row, because every snapshot looks for logins there: a way over `node_bmcs` takes twice as long.
CREATE OR REPLACE FUNCTION farrier.place_bmc() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_endpoint := bmc_endpoint_of(NEW.bmc_address);
    RETURN NEW;
END $$;
