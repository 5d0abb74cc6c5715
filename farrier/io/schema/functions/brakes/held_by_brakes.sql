-- Returns the nodes that a brake of their site keeps in service, among the nodes in `leaving` that would leave service, each for the
-- cause at the same place of `causes`; nodes that are not active are ignored. Each cause has a brake of its own. A node that is kept
-- counts as departed, so nodes that would leave together are counted together. Locks the rows of these brakes, in the order of sites and causes, until the transaction ends: however many controllers commit at
-- once, no more nodes leave than the brake allows. enable_seqscan is off so that a plan made while departures was empty
-- also finds rows by their keys. If the brake begins to hold a node, held_nodes and history have a row and the node's version is
-- incremented. The increment is two, so that settle_runs does not mistake it for the commit of the run. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.held_by_brakes(leaving bigint[], causes text[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = farrier, pg_temp SET enable_seqscan = off AS $$
DECLARE
    one    record;
    brake  brakes;
    stops  boolean;
    held   bigint[] := '{}';
    known  bigint[];
    again  bigint[];
    begun  bigint[];
    holds  boolean;
BEGIN
    FOR one IN
        SELECT coalesce(n.site, '') AS site, c.source COLLATE "C" AS source, array_agg(n.id ORDER BY n.id) AS runs
          FROM unnest(leaving, causes) c (run, source) JOIN nodes n ON n.id = c.run AND n.status = 'active'
         GROUP BY 1, 2 ORDER BY 1, 2
    LOOP
        INSERT INTO brakes (site, source) VALUES (one.site, one.source) ON CONFLICT DO NOTHING;
        SELECT * INTO brake FROM brakes b WHERE (b.site, b.source) = (one.site, one.source) FOR UPDATE;
        IF brake.counted_at IS NULL OR brake.counted_at NOT BETWEEN farrier.now() - interval '1 minute' AND farrier.now() THEN
            -- A departure with a later time than farrier.now() counts, too: farrier.now() is when this commit began, and a
            -- commit that began later may have locked the site first.
            DELETE FROM departures d
             WHERE (d.site, d.source) = (one.site, one.source)
               AND NOT EXISTS (SELECT FROM departing c WHERE (c.site, c.source, c.node) = (d.site, d.source, d.node));
            brake.counted_at := farrier.now();
            brake.in_service := (SELECT count(*) FROM (
                SELECT n.id FROM nodes n WHERE n.status = 'active' AND coalesce(n.site, '') = one.site
                UNION SELECT d.node FROM departures d WHERE (d.site, d.source) = (one.site, one.source)) s);
            brake.departed := (SELECT count(*) FROM departures d WHERE (d.site, d.source) = (one.site, one.source));
        END IF;
        -- Unless the brake has ever held nodes, nothing is known.
        known := CASE WHEN brake.since IS NULL THEN '{}' ELSE ARRAY(
            SELECT d.node FROM departing d JOIN held_nodes h USING (node, source)
             WHERE (d.site, d.source) = (one.site, one.source) AND d.node = ANY (one.runs) AND d.held) END;
        -- Not an INSERT with ON CONFLICT, which would write each row twice: under the lock, no other transaction inserts these rows.
        WITH counted AS (
            UPDATE departures d SET at = farrier.now() WHERE (d.site, d.source) = (one.site, one.source) AND d.node = ANY (one.runs)
            RETURNING d.node, d.held)
        SELECT coalesce(array_agg(c.node), '{}'), coalesce(bool_or(c.held), false) INTO again, holds FROM counted c;
        IF cardinality(again) < cardinality(one.runs) THEN
            INSERT INTO departures (site, source, node, at, held)
            SELECT one.site, one.source, run, farrier.now(), false FROM (SELECT unnest(one.runs) EXCEPT SELECT unnest(again)) r (run);
        END IF;
        brake.departed := brake.departed + cardinality(one.runs) - cardinality(again);
        -- The grant of a monitor may have limits of its own.
        SELECT brake.departed > coalesce(m.brake_share, s.brake_share) * brake.in_service AND brake.departed >= coalesce(m.brake_at_least, s.brake_at_least)
               AND NOT EXISTS (SELECT FROM brakes_lifted l WHERE l.site = one.site) INTO stops
          FROM read_settings() s LEFT JOIN monitors m ON 'monitor:' || m.name = one.source;
        IF stops AND NOT EXISTS (SELECT FROM departing d WHERE (d.site, d.source) = (one.site, one.source) AND d.held) THEN
            brake.since := farrier.now();
        END IF;
        IF stops OR holds THEN
            UPDATE departures d SET held = stops WHERE (d.site, d.source) = (one.site, one.source) AND d.node = ANY (one.runs) AND d.held <> stops;
        END IF;
        UPDATE brakes b SET in_service = brake.in_service, departed = brake.departed, counted_at = brake.counted_at, since = brake.since
         WHERE (b.site, b.source) = (one.site, one.source);
        IF stops THEN
            held := held || one.runs;
            begun := ARRAY(SELECT r FROM unnest(one.runs) r WHERE r <> ALL (known));
            INSERT INTO held_nodes (node, source) SELECT r, one.source FROM unnest(begun) r ON CONFLICT DO NOTHING;
            UPDATE nodes n SET version = n.version + 2 WHERE n.id = ANY (begun);
            PERFORM record_holds(one.site, one.source, begun);
        END IF;
    END LOOP;
    RETURN held;
END $$;
