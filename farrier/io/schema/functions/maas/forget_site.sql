-- Removes a region that no controller's settings name; its history stays. FR404 for an unknown site, FR409 for a region that is
-- not `unconfigured` and for one in which nodes have machines: no region would observe them.
CREATE OR REPLACE FUNCTION farrier.forget_site(given text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    region record;
    users text;
BEGIN
    SELECT r.id, r.state INTO region FROM maas_regions r WHERE r.site = given FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no region of a site % is known', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = 'farrier site list shows the sites.';
    END IF;
    IF region.state <> 'unconfigured' THEN
        RAISE EXCEPTION 'the region of site % is %, not unconfigured', given, region.state
            USING ERRCODE = 'FR409', HINT = 'Take the site out of the settings of every controller and have them read these; ten minutes later its region is unconfigured.';
    END IF;
    SELECT string_agg(x.name, ', ') || CASE WHEN max(x.many) > 5 THEN format(' and %s more', max(x.many) - 5) ELSE '' END INTO users
      FROM (SELECT n.name, count(*) OVER () AS many FROM nodes n
             WHERE n.site = given AND n.maas_id IS NOT NULL AND n.status <> 'deleted' ORDER BY n.name LIMIT 5) x;
    IF users IS NOT NULL THEN
        RAISE EXCEPTION 'nodes of site % have machines in its region: %', given, users
            USING ERRCODE = 'FR409', HINT = 'Remove these nodes first, or put the site back into the settings.';
    END IF;
    DELETE FROM wakes w WHERE w.kind = 'maas_region' AND w.resource = region.id;
    DELETE FROM outcomes o WHERE o.kind = 'maas_region' AND o.id = region.id;
    DELETE FROM maas_regions r WHERE r.id = region.id;
END $$;
