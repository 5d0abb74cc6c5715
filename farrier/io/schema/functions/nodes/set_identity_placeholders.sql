-- Sets the fillers that vendors ship in place of serial numbers and UUIDs, from the model. If they changed, it derives the
-- identities of all nodes again: of nodes with the same machine that have no holder yet, the first becomes the holder, and the
-- others are duplicates, which are reported. Called by every migration. May be repeated.
CREATE OR REPLACE FUNCTION farrier.set_identity_placeholders(placeholders text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM settings s WHERE s.name = 'identity_placeholders' AND s.value = to_jsonb(placeholders)) THEN RETURN; END IF;
    INSERT INTO settings AS s VALUES ('identity_placeholders', to_jsonb(placeholders)) ON CONFLICT (name) DO UPDATE SET value = excluded.value;
    LOCK TABLE node_identities IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM node_identities i USING nodes n
     WHERE n.id = i.node_id AND (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys_of_bmc(n.bmc) k);
    INSERT INTO node_identities (node_id, kind, value, holds)
    SELECT n.id, k.kind, k.value, false FROM nodes n CROSS JOIN LATERAL identity_keys_of_bmc(n.bmc) k WHERE n.status <> 'deleted'
        ON CONFLICT DO NOTHING;
    UPDATE node_identities i SET holds = true
      FROM (SELECT u.kind, u.value, min(u.node_id) AS node_id FROM node_identities u GROUP BY u.kind, u.value HAVING NOT bool_or(u.holds)) first
     WHERE (i.kind, i.value, i.node_id) = (first.kind, first.value, first.node_id);
END $$;
