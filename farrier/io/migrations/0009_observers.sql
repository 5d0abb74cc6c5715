-- How MAAS regions are observed: which there are, what a look writes, whom it wakes, and the moves that are allowed.

-- Nodes whose machine is being moved by a workflow, and since when its stage waits for news.
CREATE VIEW farrier.maas_motion AS
SELECT n.id AS node_id, n.site, n.maas_id AS system_id, greatest(w.stage_entered_at, w.status_entered_at) AS began_at
  FROM farrier.node_onboardings w JOIN farrier.nodes n ON n.live_workflow_kind = 'onboarding' AND n.live_workflow_id = w.id AND n.id = w.node_id
 WHERE w.status NOT IN ('completed', 'cancelled', 'reconciled') AND w.status IN ('running', 'failed_retryable', 'compensating')
   AND w.mode IN ('deploy', 'adopt') AND n.maas_id IS NOT NULL
UNION ALL
SELECT n.id, n.site, n.maas_id, greatest(w.stage_entered_at, w.status_entered_at)
  FROM farrier.node_decommissions w JOIN farrier.nodes n ON n.live_workflow_kind = 'decommission' AND n.live_workflow_id = w.id AND n.id = w.node_id
 WHERE w.status NOT IN ('completed', 'cancelled', 'reconciled') AND w.status IN ('running', 'failed_retryable', 'compensating')
   AND w.mode <> 'soft_reset' AND n.maas_id IS NOT NULL;

-- The regions that a controller has configured: [{site, url, motion_seconds, sweep_seconds}]. New ones are scheduled at
-- once, known ones are tried again at once; those that are not named stay as they are, for they may be another's.
CREATE FUNCTION farrier.set_sites(sites jsonb) RETURNS void
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
        INSERT INTO farrier.maas_regions (site, url, motion_every, sweep_every)
        SELECT c.site, c.url, make_interval(secs => c.motion_seconds), make_interval(secs => c.sweep_seconds)
          FROM jsonb_to_recordset(sites) c (site text, url text, motion_seconds double precision, sweep_seconds double precision)
         ORDER BY c.site
            ON CONFLICT (site) DO NOTHING
        RETURNING id
    LOOP
        PERFORM farrier.schedule_new('maas_region', made, '0');
    END LOOP;
END $$;

-- Why nothing that a site's region says or is told now can be trusted to be about our machines; null for no reason.
CREATE FUNCTION farrier.region_doubt(site text) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT CASE WHEN r.failure IN ('absent', 'auth') OR r.username IS NULL THEN coalesce(r.last_error, 'nobody has read it yet') END
              FROM farrier.maas_regions r WHERE r.site = $1);

-- When the region of a site could not be read, of late: none of that time counts against a stage. A week is longer than any
-- stage waits, and each outage has two changes.
CREATE FUNCTION farrier.region_outages(site text) RETURNS json
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(json_agg(o), '[]') FROM (
        SELECT r.state_entered_at AS began_at, NULL::timestamptz AS ended_at
          FROM farrier.maas_regions r WHERE r.site = $1 AND r.state <> 'observing'
         UNION ALL
        (SELECT h.at - make_interval(secs => h.seconds_in_source), h.at
           FROM farrier.maas_regions r
          CROSS JOIN LATERAL (
                SELECT * FROM farrier.history h
                 WHERE h.kind = 'maas_region' AND h.id = r.id AND h.layer = 'state' ORDER BY h.version DESC LIMIT 100) h
          WHERE r.site = $1 AND h.from_value <> 'observing' AND h.at > farrier.now() - interval '7 days')) o);

-- What a node's handler decides on, of what is kept of its machine.
CREATE FUNCTION farrier.telling(detail jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN detail - '{last_sync,netboot,status_name,status_message,error_description,osystem,distro_series,commissioning_status_name,testing_status_name}'::text[];

-- Nodes whose handler may care about these readings, with their schedule rows locked: what changed, what a workflow waits
-- to see for the first time since its stage began or since the region is another one, and what contradicts for long
-- enough now. Locked before any observation
-- is, as a node's own commit does, so the two cannot wait for each other; a node that is gone has no row.
CREATE FUNCTION farrier.nodes_told(readings jsonb) RETURNS bigint[]
    LANGUAGE sql AS $$
    SELECT coalesce(array_agg(l.id), '{}') FROM (
        SELECT s.id FROM farrier.schedule s
         WHERE s.kind = 'node' AND s.id IN (
            SELECT o.node_id
              FROM jsonb_to_recordset(readings) c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb)
              JOIN farrier.node_observations o ON o.node_id = c.node AND o.source = 'maas' AND o.system_id = c.system_id
              JOIN farrier.nodes n ON n.id = o.node_id
              LEFT JOIN farrier.maas_motion m ON m.node_id = o.node_id
              LEFT JOIN farrier.maas_regions r ON r.site = o.site
             WHERE o.state IS DISTINCT FROM c.state
                OR farrier.telling(o.detail) <> farrier.telling(c.detail)
                OR (m.node_id IS NOT NULL AND ((o.read_at < m.began_at AND c.read_at >= m.began_at)
                                               OR o.read_at < r.since
                                               OR o.detail -> 'last_sync' IS DISTINCT FROM c.detail -> 'last_sync'))
                OR (n.status IN ('active', 'offline', 'quarantined') AND c.state <> 'deployed'
                    AND o.read_at - o.since < interval '60 seconds' AND c.read_at - o.since >= interval '60 seconds'))
         ORDER BY s.id FOR NO KEY UPDATE OF s) l;
$$;

-- The regions of a commit, and what their looks found. Events come before readings: those were made after them.
CREATE FUNCTION farrier.write_maas_regions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
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
               next_try_at = c.next_try_at, unreadable = c.unreadable,
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

-- Whoever writes: no edge that the model lacks, and no other beginning.
CREATE FUNCTION farrier.guard_region() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e WHERE e.kind = 'maas_region' AND e.layer = 'state'
                                                 AND e.from_value = OLD.state AND e.to_value = NEW.state) THEN
        RAISE EXCEPTION 'region %: the model has no edge % -> %', NEW.site, OLD.state, NEW.state USING ERRCODE = 'FR409';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER guard_state AFTER UPDATE ON farrier.maas_regions
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.guard_region();
CREATE FUNCTION farrier.guard_first_region() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM initial_values v WHERE v.kind = 'maas_region' AND v.layer = 'state' AND v.value = NEW.state) THEN
        RAISE EXCEPTION 'a region does not begin as %', NEW.state USING ERRCODE = 'FR409';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER guard_first_state AFTER INSERT ON farrier.maas_regions
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_region();

SELECT farrier.grant_rights();
