-- Releases the addresses, memberships and ports of a deleted node, even if an operator deleted the node with an UPDATE.
-- AFTER UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.drop_networks() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM use_networks(NEW.id, '{}', '{}');
    DELETE FROM node_ib_ports p WHERE p.node = NEW.id;
    RETURN NULL;
END $$;
