-- Clears the columns of a deleted node that give access to its machine or identify it; its name and MAAS id stay. It is
-- a trigger so that it also clears a row that an operator marks as deleted with an UPDATE. BEFORE UPDATE trigger on
-- nodes.
CREATE OR REPLACE FUNCTION farrier.forget_machine() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_address := NULL;
    NEW.bmc_credential := NULL;
    NEW.bmc := '{}';
    NEW.labels := '{}';
    RETURN NEW;
END $$;
