-- Derives the identities of all nodes and agents again: among nodes with the same machine and no holder yet, the first becomes the holder, and
-- the others are reported as duplicates, unless their machines otherwise differ. Called by a migration that changes
-- identity_placeholders. May be repeated.
CREATE OR REPLACE FUNCTION farrier.derive_identities() RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    LOCK TABLE node_identities IN SHARE ROW EXCLUSIVE MODE;
    UPDATE node_agents a SET identities = d.identities
      FROM (SELECT g.node_id, identities_of_agent(g.facts) AS identities FROM node_agents g) d
     WHERE a.node_id = d.node_id AND a.identities <> d.identities;
    DELETE FROM node_identities i USING nodes n
     WHERE n.id = i.node_id AND (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys_of_bmc(n.bmc) k);
    INSERT INTO node_identities (node_id, kind, value, holds, shared)
    SELECT n.id, k.kind, k.value, false, false FROM nodes n CROSS JOIN LATERAL identity_keys_of_bmc(n.bmc) k WHERE n.status <> 'deleted'
        ON CONFLICT DO NOTHING;
    UPDATE node_identities i SET holds = true, shared = false
      FROM (SELECT u.kind, u.value, min(u.node_id) AS node_id FROM node_identities u GROUP BY u.kind, u.value HAVING NOT bool_or(u.holds)) first
     WHERE (i.kind, i.value, i.node_id) = (first.kind, first.value, first.node_id);
    UPDATE node_identities i SET shared = NOT machines_match(identities_of(mine.bmc), identities_of(theirs.bmc))
      FROM node_identities h JOIN nodes theirs ON theirs.id = h.node_id, nodes mine
     WHERE h.holds AND NOT i.holds AND h.kind = i.kind AND h.value = i.value AND mine.id = i.node_id;
END $$;
