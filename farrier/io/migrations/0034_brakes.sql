-- Brakes: when many nodes of one site would leave service together, the cause is a network, a region or the path of heartbeats
-- rather than the machines, and no further node leaves until the nodes' own facts or an operator say otherwise.

CREATE FUNCTION farrier.brake_window() RETURNS interval
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN make_interval(secs => coalesce(farrier.setting('brake_window_seconds'), 600)::double precision);

CREATE FUNCTION farrier.is_brake_lifted(of_site text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN coalesce((SELECT l.until > farrier.now() FROM farrier.brake_lifts l WHERE l.site = of_site ORDER BY l.id DESC LIMIT 1), false);

-- When the brake last refused to take this node out of service; null once the node is to try again, after half of the window.
CREATE FUNCTION farrier.braked_at(of_site text, of_node bigint) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT d.at FROM departures d
     WHERE d.site = coalesce(of_site, '') AND d.node = of_node AND d.held AND d.at > farrier.now() - brake_window() / 2
       AND NOT is_brake_lifted(d.site)
$$;

-- The runs, of those among these that would take an active node out of service, that a brake refuses. Commits of one site wait for
-- each other here, so no more nodes leave than may, however many controllers decide at once. A refused run counts like one that
-- left: what would leave together is counted as a whole.
CREATE FUNCTION farrier.held_by_brakes(leaving jsonb, among bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one    record;
    brake  brakes;
    recent timestamptz := farrier.now() - brake_window();
    share  numeric := setting('brake_share');
    least  numeric := setting('brake_at_least');
    going  integer;
    stops  boolean;
    held   bigint[] := '{}';
BEGIN
    FOR one IN
        SELECT coalesce(n.site, '') AS site, array_agg(n.id ORDER BY n.id) AS runs
          FROM jsonb_to_recordset(leaving) c (run bigint) JOIN nodes n ON n.id = c.run AND n.status = 'active'
         WHERE c.run = ANY (among)
         GROUP BY 1 ORDER BY 1
    LOOP
        INSERT INTO brakes (site) VALUES (one.site) ON CONFLICT DO NOTHING;
        SELECT * INTO brake FROM brakes b WHERE b.site = one.site FOR UPDATE;
        -- No bound above: farrier.now() is when this commit began, and one that began later may have been first here.
        DELETE FROM departures d WHERE d.site = one.site AND d.at < recent;
        IF brake.counted_at IS NULL OR brake.counted_at NOT BETWEEN farrier.now() - interval '1 minute' AND farrier.now() THEN
            brake.counted_at := farrier.now();
            brake.in_service := (SELECT count(*) FROM (
                SELECT n.id FROM nodes n WHERE n.status = 'active' AND coalesce(n.site, '') = one.site
                UNION SELECT d.node FROM departures d WHERE d.site = one.site) s);
        END IF;
        going := (SELECT count(*) FROM (SELECT unnest(one.runs) UNION SELECT d.node FROM departures d WHERE d.site = one.site) g);
        stops := coalesce(going > share * brake.in_service AND going >= least, false) AND NOT is_brake_lifted(one.site);
        IF stops AND NOT EXISTS (SELECT FROM departures d WHERE d.site = one.site AND d.held) THEN
            brake.since := farrier.now();
        END IF;
        UPDATE brakes b SET in_service = brake.in_service, counted_at = brake.counted_at, since = brake.since WHERE b.site = one.site;
        INSERT INTO departures SELECT one.site, run, farrier.now(), stops FROM unnest(one.runs) run
            ON CONFLICT (site, node) DO UPDATE SET at = excluded.at, held = excluded.held;
        IF stops THEN held := held || one.runs; END IF;
    END LOOP;
    RETURN held;
END $$;

-- Lets the moves of a site go on, whatever their number, for a while; again with another time while one lasts, '0' ends it. The site
-- is '' for nodes without one.
CREATE FUNCTION farrier.lift_brake(site text, reason text, lasts interval DEFAULT '1 hour', requested_by text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    of_site text := coalesce(lift_brake.site, '');
BEGIN
    IF coalesce(reason, '') = '' OR length(reason) > 500 OR length(requested_by) > 255 THEN
        RAISE EXCEPTION 'a brake is lifted for a reason of 1 to 500 characters, by a name of at most 255' USING ERRCODE = 'FR400';
    ELSIF lasts IS NULL OR lasts < interval '0' OR lasts > interval '24 hours' THEN
        RAISE EXCEPTION 'a brake is lifted for up to 24 hours, not for %', coalesce(lasts::text, 'null') USING ERRCODE = 'FR400';
    ELSIF NOT is_brake_lifted(of_site) AND NOT EXISTS (SELECT FROM brakes_holding h WHERE h.site = of_site) THEN
        RAISE EXCEPTION 'the brake of site % holds no node', quote_literal(of_site)
            USING ERRCODE = 'FR409', HINT = 'SELECT * FROM farrier.brakes_holding lists the sites whose brake does.';
    END IF;
    INSERT INTO brake_lifts (site, until, reason, requested_by)
    VALUES (of_site, farrier.now() + lasts, lift_brake.reason, coalesce(lift_brake.requested_by, session_user));
END $$;

SELECT farrier.let_call('farrier_intents', 'farrier.lift_brake(text,text,interval,text)');
SELECT farrier.grant_rights();
