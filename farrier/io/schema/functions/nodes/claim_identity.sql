-- Keeps node_identities consistent with the identities that nodes have read from their BMCs. When a holder gives up an identity, the
-- first other node that recorded the same machine becomes its holder. unique_violation, with the other node's name, for a machine
-- that another node holds. AFTER INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.claim_identity() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    freed node_identities;
    other record;
BEGIN
    FOR freed IN
        DELETE FROM node_identities i
         WHERE i.node_id = NEW.id
           AND (NEW.status = 'deleted' OR (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys_of_bmc(NEW.bmc) k))
        RETURNING i.* LOOP
        UPDATE node_identities h SET holds = true
         WHERE freed.holds AND h.kind = freed.kind AND h.value = freed.value
           AND h.node_id = (SELECT min(i.node_id) FROM node_identities i WHERE i.kind = freed.kind AND i.value = freed.value AND NOT i.holds);
    END LOOP;
    IF NEW.status <> 'deleted' THEN
        INSERT INTO node_identities (node_id, kind, value, holds)
        SELECT NEW.id, k.kind, k.value, true FROM identity_keys_of_bmc(NEW.bmc) k
         WHERE NOT EXISTS (SELECT FROM node_identities i WHERE i.node_id = NEW.id AND i.kind = k.kind AND i.value = k.value)
         ORDER BY k.kind, k.value;
    END IF;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    SELECT h.* INTO other FROM identity_holder(NEW.bmc ->> 'serial', NEW.bmc ->> 'uuid', NEW.bmc ->> 'manufacturer', NEW.bmc -> 'macs', NEW.id) h;
    RAISE EXCEPTION 'the machine of node % already belongs to node %: it has the same %', NEW.name, other.name, other.kind
        USING ERRCODE = 'unique_violation', CONSTRAINT = 'node_identities_one',
              HINT = 'Delete one of the two, or remove its BMC details with clear_bmc.';
END $$;
