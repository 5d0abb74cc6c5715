-- Records in bmc_logins the tries of a node at its BMC, and removes rows of any BMC that are older than login_window. Called by
-- follow_node.
CREATE OR REPLACE FUNCTION farrier.note_logins(node bigint, old_endpoint text, new_endpoint text, old_bmc jsonb, new_bmc jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    place text := coalesce(new_endpoint, old_endpoint);
    before jsonb := coalesce(old_bmc -> 'tries', '[]');
    after jsonb := coalesce(new_bmc -> 'tries', '[]');
    past timestamptz := farrier.now() - (read_constants()).login_window;
BEGIN
    -- Every node removes old rows of any BMC, because a deleted node removes none. Without SKIP LOCKED, two nodes that
    -- remove each other's rows could deadlock.
    DELETE FROM bmc_logins WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l WHERE l.at <= past LIMIT 100 FOR UPDATE SKIP LOCKED));
    DELETE FROM bmc_logins WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l
         WHERE l.endpoint = place AND l.node_id = node AND l.at NOT IN (SELECT t::timestamptz FROM jsonb_array_elements_text(after) t)
           FOR UPDATE SKIP LOCKED));
    -- Inserts only new tries, because earlier tries may have been made at another BMC.
    INSERT INTO bmc_logins AS l (endpoint, node_id, at, open)
    SELECT place, node, t::timestamptz, true FROM jsonb_array_elements_text(after) t
     WHERE place IS NOT NULL AND NOT before @> to_jsonb(t)
        ON CONFLICT DO NOTHING;
    UPDATE bmc_logins SET open = NOT open WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l
         WHERE l.endpoint IN (place, old_endpoint) AND l.node_id = node
           AND l.open <> coalesce(l.at = (new_bmc ->> 'trying')::timestamptz, false)
           FOR NO KEY UPDATE SKIP LOCKED));
END $$;
