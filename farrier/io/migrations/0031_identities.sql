-- Which machine is whose: a system UUID, and a serial number with its manufacturer, belong to one node that is not deleted.

-- What identifies the machines of nodes, written by a trigger on `nodes` alone. `holds` is false for a node that had recorded
-- a machine before this table did, and that another node has recorded, too: such duplicates are reported and stay.
CREATE TABLE farrier.node_identities (
    node_id bigint  NOT NULL REFERENCES farrier.nodes,
    kind    text    NOT NULL CHECK (kind IN ('uuid', 'serial', 'mac')),
    value   text    COLLATE "C" NOT NULL,
    holds   boolean NOT NULL,
    PRIMARY KEY (node_id, kind, value)
);
CREATE UNIQUE INDEX node_identities_one ON farrier.node_identities (kind, value) WHERE holds;
CREATE INDEX node_identities_shared ON farrier.node_identities (kind, value) WHERE NOT holds;

-- The number in one spelling: a serial without case and blanks at its ends, behind its manufacturer's letters and digits; a UUID
-- in the smaller of the two byte orders of its first three fields, which firmware updates swap. Null for a filler. MAC addresses
-- count only where a BMC reports neither, because network cards are replaced. `farrier.model.identity` compares by the same rules.
CREATE FUNCTION farrier.identity_keys(serial text, uuid text, manufacturer text, macs jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fillers jsonb := coalesce((SELECT s.value FROM settings s WHERE s.name = 'identity_placeholders'), '[]');
    number text := lower(btrim(serial, E' \t\r\n'));
    hex text := translate(regexp_replace(lower(btrim(uuid, E' \t\r\n')), '^urn:uuid:', ''), '-{}', '');
    swapped text;
    known boolean := false;
BEGIN
    IF hex ~ '^[0-9a-f]{32}$' THEN
        swapped := substr(hex, 7, 2) || substr(hex, 5, 2) || substr(hex, 3, 2) || substr(hex, 1, 2)
                || substr(hex, 11, 2) || substr(hex, 9, 2) || substr(hex, 15, 2) || substr(hex, 13, 2) || substr(hex, 17);
        IF hex <> repeat(left(hex, 2), 16) AND NOT fillers ?| ARRAY[hex::uuid::text, swapped::uuid::text] THEN
            known := true;
            RETURN QUERY SELECT 'uuid', least(hex COLLATE "C", swapped COLLATE "C");
        END IF;
    END IF;
    IF number <> repeat(left(number, 1), length(number)) AND NOT fillers ? number THEN
        known := true;
        RETURN QUERY SELECT 'serial', regexp_replace(lower(coalesce(manufacturer, '')), '[^[:alnum:]]', '', 'g') || '/' || number;
    END IF;
    IF NOT known THEN
        RETURN QUERY SELECT DISTINCT 'mac', m.mac
                       FROM (SELECT translate(lower(t), ':-. ', '') AS mac FROM jsonb_array_elements_text(macs) t) m
                      WHERE m.mac ~ '^[0-9a-f]{12}$' AND m.mac <> repeat(left(m.mac, 1), 12);
    END IF;
END $$;
CREATE FUNCTION farrier.identity_keys(bmc jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT k.kind, k.value FROM identity_keys(bmc ->> 'serial', bmc ->> 'uuid', bmc ->> 'manufacturer', bmc -> 'macs') k;
$$;

-- What is given up goes to the node that recorded the same machine first, if one did.
CREATE FUNCTION farrier.claim_identity() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    freed node_identities;
    other record;
BEGIN
    FOR freed IN
        DELETE FROM node_identities i
         WHERE i.node_id = NEW.id
           AND (NEW.status = 'deleted' OR (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys(NEW.bmc) k))
        RETURNING i.* LOOP
        UPDATE node_identities h SET holds = true
         WHERE freed.holds AND h.kind = freed.kind AND h.value = freed.value
           AND h.node_id = (SELECT min(i.node_id) FROM node_identities i WHERE i.kind = freed.kind AND i.value = freed.value AND NOT i.holds);
    END LOOP;
    IF NEW.status <> 'deleted' THEN
        INSERT INTO node_identities (node_id, kind, value, holds)
        SELECT NEW.id, k.kind, k.value, true FROM identity_keys(NEW.bmc) k
         WHERE NOT EXISTS (SELECT FROM node_identities i WHERE i.node_id = NEW.id AND i.kind = k.kind AND i.value = k.value)
         ORDER BY k.kind, k.value;
    END IF;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    SELECT h.* INTO other FROM identity_holder(NEW.bmc ->> 'serial', NEW.bmc ->> 'uuid', NEW.bmc ->> 'manufacturer', NEW.bmc -> 'macs', NEW.id) h;
    RAISE EXCEPTION 'the machine of node % belongs to node % already: it has the same %', NEW.name, other.name, other.kind
        USING ERRCODE = 'unique_violation', CONSTRAINT = 'node_identities_one',
              HINT = 'Delete one of the two, or remove its BMC details with clear_bmc.';
END $$;
CREATE TRIGGER claim_identity_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc ?| '{serial,uuid,macs}') EXECUTE FUNCTION farrier.claim_identity();
CREATE TRIGGER claim_identity AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc -> 'serial' IS DISTINCT FROM NEW.bmc -> 'serial' OR OLD.bmc -> 'uuid' IS DISTINCT FROM NEW.bmc -> 'uuid'
          OR OLD.bmc -> 'manufacturer' IS DISTINCT FROM NEW.bmc -> 'manufacturer' OR OLD.bmc -> 'macs' IS DISTINCT FROM NEW.bmc -> 'macs'
          OR (NEW.status = 'deleted' AND OLD.status <> 'deleted'))
    EXECUTE FUNCTION farrier.claim_identity();

-- The node, other than `except_node`, to which a machine that reports this belongs, and by what; no row for none.
CREATE FUNCTION farrier.identity_holder(serial text, uuid text, manufacturer text, macs jsonb, except_node bigint)
    RETURNS TABLE (name text, kind text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH keys AS (SELECT k.* FROM identity_keys(serial, uuid, manufacturer, macs) k), held AS (
        SELECT i.node_id, i.kind FROM keys k JOIN node_identities i USING (kind, value) WHERE i.holds
        UNION ALL
        SELECT m.node_id, 'mac' FROM keys k JOIN node_macs m ON m.mac = k.value::macaddr WHERE k.kind = 'mac'
    )
    SELECT n.name, h.kind FROM held h JOIN nodes n ON n.id = h.node_id
     WHERE h.node_id <> except_node ORDER BY h.kind DESC, h.node_id LIMIT 1;
$$;

-- The names of the nodes that recorded the same machine as this one.
CREATE FUNCTION farrier.same_machine(of_node bigint) RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT coalesce(array_agg(DISTINCT n.name ORDER BY n.name), '{}')
      FROM node_identities mine
      JOIN node_identities theirs ON theirs.kind = mine.kind AND theirs.value = mine.value AND theirs.node_id <> mine.node_id
      JOIN nodes n ON n.id = theirs.node_id
     WHERE mine.node_id = of_node;
$$;

-- What identifies nothing: fillers that vendors ship, from the model. After a change of them, and at first, everything that nodes
-- have recorded is looked at anew: of nodes with the same machine the first holds it, the others are duplicates.
CREATE FUNCTION farrier.set_identity_placeholders(placeholders text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM settings s WHERE s.name = 'identity_placeholders' AND s.value = to_jsonb(placeholders)) THEN RETURN; END IF;
    INSERT INTO settings AS s VALUES ('identity_placeholders', to_jsonb(placeholders)) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    LOCK TABLE node_identities IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM node_identities i USING nodes n
     WHERE n.id = i.node_id AND (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys(n.bmc) k);
    INSERT INTO node_identities (node_id, kind, value, holds)
    SELECT n.id, k.kind, k.value, false FROM nodes n CROSS JOIN LATERAL identity_keys(n.bmc) k WHERE n.status <> 'deleted'
        ON CONFLICT DO NOTHING;
    UPDATE node_identities i SET holds = true
      FROM (SELECT u.kind, u.value, min(u.node_id) AS node_id FROM node_identities u GROUP BY u.kind, u.value HAVING NOT bool_or(u.holds)) first
     WHERE (i.kind, i.value, i.node_id) = (first.kind, first.value, first.node_id);
END $$;

SELECT farrier.let_call('farrier_reader', 'farrier.same_machine(bigint)');
SELECT farrier.grant_rights();
