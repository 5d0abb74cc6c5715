-- Sets nodes.bmc_endpoint. Every snapshot looks up logins by this column: a lookup through node_bmcs takes twice as long. BEFORE
-- INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.place_bmc() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_endpoint := bmc_endpoint_of(NEW.bmc_address);
    RETURN NEW;
END $$;
