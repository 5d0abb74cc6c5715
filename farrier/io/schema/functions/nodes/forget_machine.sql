-- A deleted node's row keeps its name and MAAS id, and nothing that names its machine or opens it. Triggers clear the rest, so a
-- row that an operator marks as deleted with an UPDATE is no exception.
CREATE OR REPLACE FUNCTION farrier.forget_machine() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_address := NULL;
    NEW.bmc_credential := NULL;
    NEW.bmc := '{}';
    NEW.labels := '{}';
    RETURN NEW;
END $$;
