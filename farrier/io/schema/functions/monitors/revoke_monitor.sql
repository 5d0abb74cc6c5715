-- Removes a monitor. Its notes end. Its conditions with the effect quarantine become unknown: they keep no further node out of service,
-- and stand until an operator releases them. FR404 for an unknown monitor.
CREATE OR REPLACE FUNCTION farrier.revoke_monitor(monitor text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM monitors m WHERE m.name = monitor;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no monitor is named %', coalesce(quote_literal(left(monitor, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'SELECT name FROM farrier.monitors lists the monitors.';
    END IF;
    WITH ended AS (
        DELETE FROM node_conditions c WHERE c.source = 'monitor:' || monitor AND c.effect = 'note' RETURNING c.node
    ), unknown AS (
        UPDATE node_conditions c SET expires_at = farrier.now()
         WHERE c.source = 'monitor:' || monitor AND c.effect = 'quarantine' AND c.expires_at > farrier.now() RETURNING c.node
    )
    INSERT INTO wakes (kind, resource) SELECT 'node', e.node FROM ended e UNION SELECT 'node', u.node FROM unknown u;
END $$;
