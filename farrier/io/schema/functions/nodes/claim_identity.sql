-- Records in node_identities the identities that a node has read from its BMC. When a holder gives up an identity, the first other
-- node that recorded it becomes its holder. If the machine of another node has a value in common, but otherwise differs, the value is
-- recorded as shared. unique_violation, with the other node's name, for a machine that another node has. Called by follow_node.
CREATE OR REPLACE FUNCTION farrier.claim_identity(node bigint, called text, bmc jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    freed node_identities;
    other record;
BEGIN
    FOR freed IN
        DELETE FROM node_identities i
         WHERE i.node_id = node AND (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys_of_bmc(bmc) k)
        RETURNING i.* LOOP
        UPDATE node_identities h SET holds = true, shared = false
         WHERE freed.holds AND h.kind = freed.kind AND h.value = freed.value
           AND h.node_id = (SELECT min(i.node_id) FROM node_identities i WHERE i.kind = freed.kind AND i.value = freed.value AND NOT i.holds);
    END LOOP;
    IF EXISTS (SELECT FROM identity_keys_of_bmc(bmc) k
                WHERE NOT EXISTS (SELECT FROM node_identities i WHERE i.node_id = node AND i.kind = k.kind AND i.value = k.value)) THEN
        SELECT h.* INTO other FROM identity_holder(bmc, node) h;
        IF FOUND THEN
            RAISE EXCEPTION 'the machine of node % already belongs to node %: it has the same %', called, other.name, other.kind
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'node_identities_one',
                      HINT = 'Delete one of the two, or remove its BMC details with clear_bmc.';
        END IF;
    END IF;
    -- If another transaction claims the same identity at the same time, node_identities_one refuses the later claim. Its controller
    -- then decides again, and sees the identity of the other node.
    INSERT INTO node_identities (node_id, kind, value, holds, shared)
    SELECT node, k.kind, k.value, NOT t.is_held, t.is_held
      FROM identity_keys_of_bmc(bmc) k
     CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM node_identities i WHERE i.kind = k.kind AND i.value = k.value AND i.holds) AS is_held) t
     WHERE NOT EXISTS (SELECT FROM node_identities i WHERE i.node_id = node AND i.kind = k.kind AND i.value = k.value)
     ORDER BY k.kind, k.value;
END $$;
