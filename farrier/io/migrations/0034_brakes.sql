-- Brakes: when many nodes of one site would leave service together, the cause is rather a network, a region or the path of
-- heartbeats than the machines, and none of them is moved until an operator or the facts say otherwise.

-- The brake of a site, '' for nodes without one. It holds for as long as moves are refused: held_at is the last refusal, since the
-- first of this time. The counts are those of the last refusal. lifted_*: an operator let the moves go on until then.
CREATE TABLE farrier.brakes (
    site          text PRIMARY KEY,
    since         timestamptz,
    held_at       timestamptz,
    leaving       integer,
    allowed       integer,
    in_service    integer,
    lifted_until  timestamptz,
    lifted_by     text,
    lifted_reason text
);

-- Nodes that silence or drift took out of service, of the last `brake_window` of their site.
CREATE TABLE farrier.departures (
    site text        NOT NULL,
    node bigint      NOT NULL,
    at   timestamptz NOT NULL,
    PRIMARY KEY (site, node)
);

-- How long a refusal holds before the site is counted anew: each node runs every 30 s, so this is one count a minute.
CREATE FUNCTION farrier.brake_holds() RETURNS interval
    LANGUAGE sql IMMUTABLE RETURN interval '60 seconds';

-- When the brake of a site last refused a move; null while moves may go on.
CREATE FUNCTION farrier.braked_at(site text) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT b.held_at FROM brakes b
     WHERE b.site = coalesce(braked_at.site, '') AND b.held_at BETWEEN farrier.now() - brake_holds() AND farrier.now()
       AND coalesce(b.lifted_until, '-infinity') <= farrier.now()
$$;

-- Nodes of a site that are active although silence or MAAS speaks against them now, as far as stored facts say.
CREATE FUNCTION farrier.about_to_leave(of_site text) RETURNS SETOF bigint
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT n.id
      FROM nodes n LEFT JOIN node_agents a ON a.node_id = n.id
      LEFT JOIN node_observations o ON o.node_id = n.id AND o.source = 'maas' AND o.system_id = n.maas_id
     WHERE n.status = 'active' AND coalesce(n.site, '') = of_site
       AND (CASE WHEN n.agentless THEN n.power = 'off'
                 ELSE coalesce(a.last_heartbeat_at, '-infinity') < farrier.now() - make_interval(secs => setting('offline_after_seconds')::double precision) END
            OR o.state <> 'deployed' AND o.read_at > farrier.now() - make_interval(secs => setting('observation_ttl_seconds')::double precision))
$$;

-- The runs, of those among these that would take an active node out of service, that a brake refuses. Commits of one site wait for each other
-- here, so no more nodes leave than are allowed, however many controllers decide at once. What is allowed is recorded as departed.
CREATE FUNCTION farrier.held_by_brakes(leaving jsonb, among bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one     record;
    brake   brakes;
    recent  timestamptz := farrier.now() - make_interval(secs => setting('brake_window_seconds')::double precision);
    served  integer;
    bound   integer;
    going   integer;
    held    bigint[] := '{}';
BEGIN
    FOR one IN
        SELECT coalesce(n.site, '') AS site, array_agg(n.id ORDER BY n.id) AS runs
          FROM jsonb_to_recordset(leaving) c (run bigint) JOIN nodes n ON n.id = c.run AND n.status = 'active'
         WHERE c.run = ANY (among)
         GROUP BY 1 ORDER BY 1
    LOOP
        INSERT INTO brakes (site) VALUES (one.site) ON CONFLICT DO NOTHING;
        SELECT * INTO brake FROM brakes b WHERE b.site = one.site FOR UPDATE;
        IF braked_at(one.site) IS NOT NULL THEN
            held := held || one.runs;
            CONTINUE;
        END IF;
        DELETE FROM departures d WHERE d.site = one.site AND (d.at < recent OR d.at > farrier.now());
        SELECT count(*) INTO served FROM (
            SELECT n.id FROM nodes n WHERE n.status = 'active' AND coalesce(n.site, '') = one.site
            UNION SELECT d.node FROM departures d WHERE d.site = one.site) s;
        SELECT count(*) INTO going FROM (
            SELECT unnest(one.runs) UNION SELECT d.node FROM departures d WHERE d.site = one.site UNION SELECT about_to_leave(one.site)) g;
        bound := greatest(setting('brake_at_least'), ceil(setting('brake_share') * served));
        IF going > bound AND coalesce(brake.lifted_until, '-infinity') <= farrier.now() THEN
            -- One that was refused within two minutes is the same time: between two counts passes a minute, and a run.
            UPDATE brakes b SET held_at = farrier.now(), leaving = going, allowed = bound, in_service = served,
                   since = CASE WHEN b.held_at BETWEEN farrier.now() - 2 * brake_holds() AND farrier.now() THEN b.since ELSE farrier.now() END
             WHERE b.site = one.site;
            held := held || one.runs;
        ELSE
            UPDATE brakes b SET since = NULL, held_at = NULL WHERE b.site = one.site AND b.held_at IS NOT NULL;
            INSERT INTO departures SELECT one.site, run, farrier.now() FROM unnest(one.runs) run
                ON CONFLICT (site, node) DO UPDATE SET at = excluded.at;
        END IF;
    END LOOP;
    RETURN held;
END $$;

-- Lets the moves of a site go on, whatever their number, for a while. The site is '' for nodes without one.
CREATE FUNCTION farrier.lift_brake(site text, reason text, lasts interval DEFAULT '1 hour', requested_by text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF coalesce(reason, '') = '' OR length(reason) > 500 THEN
        RAISE EXCEPTION 'a brake is lifted for a reason of 1 to 500 characters' USING ERRCODE = 'FR400';
    ELSIF lasts IS NULL OR lasts <= interval '0' OR lasts > interval '24 hours' THEN
        RAISE EXCEPTION 'a brake is lifted for up to 24 hours, not for %', coalesce(lasts::text, 'null') USING ERRCODE = 'FR400';
    ELSIF NOT EXISTS (SELECT FROM brakes b WHERE b.site = coalesce(lift_brake.site, '') AND b.held_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the brake of site % holds nothing', coalesce(lift_brake.site, '')
            USING ERRCODE = 'FR409', HINT = 'SELECT site, since, leaving, allowed FROM farrier.brakes WHERE since IS NOT NULL lists those that do.';
    END IF;
    UPDATE brakes b SET lifted_until = farrier.now() + lasts, lifted_reason = reason, lifted_by = coalesce(requested_by, session_user)
     WHERE b.site = coalesce(lift_brake.site, '');
END $$;

SELECT farrier.let_call('farrier_intents', 'farrier.lift_brake(text,text,interval,text)');
GRANT SELECT ON farrier.brakes TO farrier_reader;
SELECT farrier.grant_rights();
