-- Updates the tables that depend on a node's row. OLD is null in an INSERT. AFTER INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.follow_node() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    lives boolean := NEW.status <> 'deleted';
BEGIN
    IF OLD.bmc_address IS DISTINCT FROM NEW.bmc_address THEN
        PERFORM claim_bmc(NEW.id, NEW.bmc_address);
    END IF;
    IF (OLD.bmc -> 'serial', OLD.bmc -> 'uuid', OLD.bmc -> 'manufacturer', OLD.bmc -> 'macs')
       IS DISTINCT FROM (NEW.bmc -> 'serial', NEW.bmc -> 'uuid', NEW.bmc -> 'manufacturer', NEW.bmc -> 'macs') THEN
        PERFORM claim_identity(NEW.id, NEW.name, NEW.bmc);
    END IF;
    -- The failed logins of a deleted node still count for the next node with the BMC.
    IF lives AND (OLD.bmc -> 'tries', OLD.bmc -> 'trying') IS DISTINCT FROM (NEW.bmc -> 'tries', NEW.bmc -> 'trying') THEN
        PERFORM note_logins(NEW.id, OLD.bmc_endpoint, NEW.bmc_endpoint, OLD.bmc, NEW.bmc);
    END IF;
    IF NOT lives THEN
        PERFORM watch_machine(NEW.id, NEW.site, NULL);
        PERFORM use_networks(NEW.id, '{}', '{}');
        DELETE FROM node_ib_ports p WHERE p.node = NEW.id;
        DELETE FROM node_conditions c WHERE c.node = NEW.id;
    ELSIF (OLD.maas_id, OLD.site) IS DISTINCT FROM (NEW.maas_id, NEW.site) THEN
        PERFORM watch_machine(NEW.id, NEW.site, NEW.maas_id);
    END IF;
    RETURN NULL;
END $$;
