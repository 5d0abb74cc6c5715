-- Lets a monitor state conditions of nodes: by a login, which also needs role farrier_monitor, and by the token of the HTTP API that has
-- the monitor's name and the scope conditions. Replaces an earlier grant of the monitor; its conditions stand. sites and ids are
-- patterns, in which * stands for any text and ? for one character; effect is the highest effect that it may request. labels names
-- the labels of alerts: {"node", "serial", "id", "target", "effect", "message"}. FR400 for malformed arguments, FR404 for an unknown
-- login, FR409 for the login of another monitor.
CREATE OR REPLACE FUNCTION farrier.grant_monitor(
    monitor text, login text DEFAULT NULL, sites text[] DEFAULT '{*}', ids text[] DEFAULT '{*}', effect text DEFAULT 'note',
    lasts interval DEFAULT '5 hours', labels jsonb DEFAULT '{}', brake_share numeric DEFAULT NULL, brake_at_least integer DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    known text[] := ARRAY['node', 'serial', 'id', 'target', 'effect', 'message'];
BEGIN
    IF grant_monitor.login IS NOT NULL AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_monitor.login) THEN
        RAISE EXCEPTION 'login % does not exist', quote_literal(left(grant_monitor.login, 80))
            USING ERRCODE = 'FR404', HINT = 'Create it first: CREATE ROLE ... LOGIN IN ROLE farrier_monitor.';
    ELSIF EXISTS (SELECT FROM monitors m WHERE m.login = grant_monitor.login AND m.name <> monitor) THEN
        RAISE EXCEPTION 'login % is the login of another monitor', quote_literal(grant_monitor.login)
            USING ERRCODE = 'FR409', HINT = 'Give each monitor its own login.';
    ELSIF coalesce(cardinality(grant_monitor.sites), 0) = 0 OR coalesce(cardinality(grant_monitor.ids), 0) = 0
       OR array_position(grant_monitor.sites || grant_monitor.ids, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'expected one or more patterns of sites and of IDs' USING ERRCODE = 'FR400', HINT = '{*} stands for all.';
    ELSIF jsonb_typeof(grant_monitor.labels) IS DISTINCT FROM 'object'
       OR EXISTS (SELECT FROM jsonb_each(grant_monitor.labels) l WHERE l.key <> ALL (known) OR jsonb_typeof(l.value) <> 'string') THEN
        RAISE EXCEPTION 'labels must be a JSON object of texts, got %', coalesce(left(grant_monitor.labels::text, 200), 'null')
            USING ERRCODE = 'FR400', HINT = 'Known: ' || array_to_string(known, ', ');
    END IF;
    INSERT INTO monitors AS m (name, login, sites, ids, effect, lasts, labels, brake_share, brake_at_least)
    VALUES (monitor, grant_monitor.login, grant_monitor.sites, grant_monitor.ids, grant_monitor.effect, grant_monitor.lasts,
            grant_monitor.labels, grant_monitor.brake_share, grant_monitor.brake_at_least)
        ON CONFLICT ON CONSTRAINT monitors_pkey DO UPDATE
       SET login = excluded.login, sites = excluded.sites, ids = excluded.ids, effect = excluded.effect, lasts = excluded.lasts,
           labels = excluded.labels, brake_share = excluded.brake_share, brake_at_least = excluded.brake_at_least,
           granted_at = excluded.granted_at, granted_by = excluded.granted_by;
EXCEPTION
    WHEN check_violation OR not_null_violation THEN
        RAISE EXCEPTION 'monitor %: expected a name of at most 63 letters, digits and ._-, the effect note or quarantine, a duration of 1 minute to 30 days, a share of 0 to 1 and at least 1 node',
            coalesce(quote_literal(left(monitor, 80)), 'null') USING ERRCODE = 'FR400';
END $$;
