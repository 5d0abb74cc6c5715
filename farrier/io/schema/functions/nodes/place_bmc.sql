-- Sets nodes.bmc_endpoint. It is kept in the node's row because every snapshot looks up logins by it: through node_bmcs that
-- takes twice as long. BEFORE INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.place_bmc() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_endpoint := bmc_endpoint_of(NEW.bmc_address);
    RETURN NEW;
END $$;
