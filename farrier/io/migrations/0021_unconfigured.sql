-- Regions whose site no controller has in its settings any more: that is a state of its own, and such a region can be forgotten.

-- When a controller last had the site in its settings; it notes that at least once a minute.
ALTER TABLE farrier.maas_regions ADD configured_at timestamptz;
UPDATE farrier.maas_regions SET configured_at = farrier.now();

CREATE OR REPLACE FUNCTION farrier.set_sites(sites jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    -- First, as a commit does.
    PERFORM FROM farrier.schedule s
     WHERE s.kind = 'maas_region'
       AND s.id IN (SELECT r.id FROM farrier.maas_regions r JOIN jsonb_to_recordset(sites) c (site text) ON c.site = r.site)
     ORDER BY s.id FOR NO KEY UPDATE;
    UPDATE farrier.maas_regions r
       SET version = r.version + 1, motion_every = make_interval(secs => c.motion_seconds),
           sweep_every = make_interval(secs => c.sweep_seconds), identified_at = NULL, next_try_at = NULL,
           configured_at = farrier.now(),
           -- Another region has other events, other users, and other machines by the same ids: nothing that was read
           -- before says anything of them.
           since = CASE WHEN r.url = c.url THEN r.since ELSE farrier.now() END,
           url = c.url, cursor = CASE WHEN r.url = c.url THEN r.cursor ELSE '{}' END,
           complete_at = CASE WHEN r.url = c.url THEN r.complete_at END,
           username = CASE WHEN r.url = c.url THEN r.username END
      FROM jsonb_to_recordset(sites) c (site text, url text, motion_seconds double precision, sweep_seconds double precision)
     WHERE r.site = c.site;
    PERFORM farrier.enqueue('maas_region', r.id) FROM farrier.maas_regions r
      JOIN jsonb_to_recordset(sites) c (site text) ON c.site = r.site;
    FOR made IN
        INSERT INTO farrier.maas_regions (site, url, motion_every, sweep_every, configured_at)
        SELECT c.site, c.url, make_interval(secs => c.motion_seconds), make_interval(secs => c.sweep_seconds), farrier.now()
          FROM jsonb_to_recordset(sites) c (site text, url text, motion_seconds double precision, sweep_seconds double precision)
         ORDER BY c.site
            ON CONFLICT (site) DO NOTHING
        RETURNING id
    LOOP
        PERFORM farrier.schedule_new('maas_region', made, '0');
    END LOOP;
END $$;

CREATE FUNCTION farrier.begin_region() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM record_beginning('maas_region', NEW.id, NEW.version, 'state', NEW.state, 'site ' || NEW.site, 'configured by ' || session_user);
    RETURN NULL;
END $$;
CREATE TRIGGER begin_region AFTER INSERT ON farrier.maas_regions
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_region();

CREATE OR REPLACE FUNCTION farrier.write_maas_regions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    fit bigint[] := ARRAY(
        SELECT r.id FROM farrier.maas_regions r
          JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint, version bigint) ON c.run = r.id AND c.version = r.version
         ORDER BY r.id FOR NO KEY UPDATE OF r);
BEGIN
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
        RETURN QUERY SELECT c.run, interval '0' FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (fit);
        changes := farrier.of_runs(changes, fit);
    END IF;
    IF changes ? 'regions' THEN
        UPDATE farrier.maas_regions r
           SET version = r.version + 1, state = c.state,
               state_entered_at = CASE WHEN r.state = c.state THEN r.state_entered_at ELSE farrier.now() END,
               username = c.username, identified_at = c.identified_at, cursor = c.cursor, complete_at = c.complete_at,
               swept_at = c.swept_at, last_error = c.last_error, failure = c.failure, failures = c.failures,
               next_try_at = c.next_try_at, unreadable = c.unreadable, configured_at = c.configured_at,
               -- Machines were judged by another user's key until now.
               since = CASE WHEN r.username <> c.username THEN c.identified_at ELSE r.since END
          FROM jsonb_populate_recordset(NULL::farrier.maas_regions, changes -> 'regions') c
         WHERE r.id = c.id;
    END IF;
    IF changes ? 'readings' THEN
        PERFORM farrier.enqueue('node', told) FROM unnest(farrier.nodes_told(changes -> 'readings')) told;
    END IF;
    IF changes ? 'unknown' THEN
        UPDATE farrier.node_observations o SET stale_since = c.at
          FROM jsonb_to_recordset(changes -> 'unknown') c (run bigint, at timestamptz) JOIN farrier.maas_regions r ON r.id = c.run
         WHERE o.site = r.site AND o.stale_since IS NULL;
    END IF;
    IF changes ? 'named' THEN
        UPDATE farrier.node_observations o SET stale_since = c.at
          FROM jsonb_to_recordset(changes -> 'named') c (run bigint, system_id text, at timestamptz, status_changed boolean)
          JOIN farrier.maas_regions r ON r.id = c.run
         WHERE o.site = r.site AND o.system_id = c.system_id
           AND (c.status_changed OR EXISTS (SELECT FROM farrier.maas_motion m WHERE m.node_id = o.node_id));
    END IF;
    IF changes ? 'readings' THEN
        UPDATE farrier.node_observations o
           SET state = c.state, since = CASE WHEN o.state = c.state THEN o.since ELSE c.read_at END, read_at = c.read_at,
               stale_since = CASE WHEN o.stale_since > c.read_at THEN o.stale_since END, detail = c.detail,
               lost_at = CASE WHEN c.state <> 'absent' THEN NULL
                              WHEN o.state <> 'absent' AND NOT EXISTS (SELECT FROM farrier.nodes n WHERE n.id = o.node_id AND n.live_workflow_kind = 'decommission')
                              THEN c.read_at ELSE o.lost_at END
          FROM jsonb_to_recordset(changes -> 'readings') c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb)
         WHERE o.node_id = c.node AND o.source = 'maas' AND o.system_id = c.system_id
           AND (o.read_at IS NULL OR o.read_at <= c.read_at);
    END IF;
END $$;

-- Removes a region that is in no controller's settings any more. Its history stays. Refused (FR409) while it is configured
-- somewhere, and while nodes have machines there, of which nobody would ever hear again.
CREATE FUNCTION farrier.forget_site(given text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    region record;
    users text;
BEGIN
    -- First, as a commit does.
    PERFORM FROM schedule s JOIN maas_regions r ON r.id = s.id WHERE s.kind = 'maas_region' AND r.site = given FOR UPDATE OF s;
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
    DELETE FROM schedule s WHERE s.kind = 'maas_region' AND s.id = region.id;
    DELETE FROM outcomes o WHERE o.kind = 'maas_region' AND o.id = region.id;
    DELETE FROM maas_regions r WHERE r.id = region.id;
END $$;
SELECT farrier.grant_rights();
