-- A commit is one call: a reaction waits for one trip to the server and not for eight, and the schedule rows are locked
-- for as long as the server needs.

-- What `changes` has of these runs. It is an object of arrays, whose elements name their run.
CREATE FUNCTION farrier.of_runs(changes jsonb, runs bigint[]) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(jsonb_object_agg(section.key, section.kept), '{}') FROM (
        SELECT e.key, (SELECT coalesce(jsonb_agg(c), '[]') FROM jsonb_array_elements(e.value) c
                        WHERE (c ->> 'run')::bigint = ANY (runs)) AS kept
          FROM jsonb_each(changes) e) section);

-- Commits runs of one kind, each whole or not at all, and gives their schedule rows back. `writer` names the kind's own
-- function (jsonb) RETURNS TABLE (run bigint, due_in interval): it writes states and whatever else runs leave, and answers
-- the runs of which it wrote nothing because what they were decided on has changed. A lane that is null takes the row off
-- the schedule; `steps` 1 counts a rerun, 0 leaves the count, null ends it. Verdicts: committed, conflict, lost, locked.
CREATE FUNCTION farrier.commit_runs(
    of_kind text, controller uuid, patient boolean, writer text, changes jsonb,
    ids bigint[], tokens bigint[], lanes smallint[], delays interval[], steps smallint[], keys integer[],
    moved bigint[], versions bigint[], layers text[], from_values text[], to_values text[], seconds double precision[],
    causes text[], reasons text[], sources text[], move_tokens bigint[],
    told bigint[], outcomes text[])
    RETURNS TABLE (id bigint, verdict text, woken boolean)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    locked bigint[];
    won bigint[];
    failed_runs bigint[];
    failed_dues interval[];
    all_won boolean;
BEGIN
    IF patient THEN
        PERFORM set_config('lock_timeout', '1s', true);
        PERFORM FROM farrier.schedule s WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE;
    END IF;
    SELECT array_agg(l.id), array_agg(l.id) FILTER (WHERE l.claim_token = r.token) INTO locked, won
      FROM (SELECT s.id, s.claim_token FROM farrier.schedule s
             WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) l
      JOIN unnest(ids, tokens) r (id, token) USING (id);
    IF coalesce(cardinality(won), 0) < cardinality(ids) THEN
        RETURN QUERY SELECT r.id, CASE WHEN patient OR r.id = ANY (locked) THEN 'lost' ELSE 'locked' END, false
                       FROM unnest(ids) r (id) WHERE won IS NULL OR r.id <> ALL (won);
        IF won IS NULL THEN RETURN; END IF;
        changes := farrier.of_runs(changes, won);
    END IF;

    IF changes <> '{}' THEN
        EXECUTE format('SELECT array_agg(w.run), array_agg(w.due_in) FROM %s($1) w', writer::regproc)
           INTO failed_runs, failed_dues USING changes;
        IF failed_runs IS NOT NULL THEN
            RETURN QUERY
            UPDATE farrier.schedule s
               SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0,
                   due_at = farrier.now() + CASE WHEN s.wake_seq = s.claimed_wake_seq THEN f.due_in ELSE '0' END
              FROM unnest(failed_runs, failed_dues) f (run, due_in)
             WHERE s.kind = of_kind AND s.id = f.run
            RETURNING s.id, 'conflict', f.due_in <= interval '0' OR s.due_at <= farrier.now();
            won := ARRAY(SELECT w FROM unnest(won) w WHERE w <> ALL (failed_runs));
        END IF;
    END IF;
    all_won := cardinality(won) = cardinality(ids);

    IF cardinality(moved) > 0 THEN
        INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, claim_token)
        SELECT of_kind, r.id, r.version, r.layer, r.from_value, r.to_value, farrier.now(), r.seconds, r.cause, r.reason, r.source, commit_runs.controller, r.token
          FROM unnest(moved, versions, layers, from_values, to_values, commit_runs.seconds, causes, reasons, sources, move_tokens)
               AS r (id, version, layer, from_value, to_value, seconds, cause, reason, source, token)
         WHERE all_won OR r.id = ANY (won);
    END IF;
    IF cardinality(told) > 0 THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
        SELECT of_kind, r.id, farrier.now(), r.outcome::jsonb FROM unnest(told, commit_runs.outcomes) AS r (id, outcome)
         WHERE all_won OR r.id = ANY (won)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome;
    END IF;

    -- Row by row through the key, and then by ctid, as a release.
    RETURN QUERY
    WITH ours AS MATERIALIZED (
        SELECT s.place, r.lane, r.delay, r.step, r.outcome_key
          FROM unnest(ids, lanes, delays, steps, keys) AS r (id, lane, delay, step, outcome_key)
         CROSS JOIN LATERAL (SELECT ctid AS place FROM farrier.schedule WHERE kind = of_kind AND id = r.id) s
         WHERE r.lane IS NOT NULL AND (all_won OR r.id = ANY (won))
    )
    UPDATE farrier.schedule s
       SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL,
           outcome_key = coalesce(ours.outcome_key, s.outcome_key),
           reruns = coalesce(s.reruns + ours.step, 0),
           lane = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN ours.lane ELSE 0 END,
           due_at = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN farrier.now() + ours.delay ELSE farrier.now() END
      FROM ours
     WHERE s.ctid = ours.place
    RETURNING s.id, 'committed', s.lane = 0;
    -- Off the schedule, unless a wake came in: then the row stays for one more run.
    IF array_position(lanes, NULL) IS NOT NULL THEN
        RETURN QUERY
        WITH ended AS (
            SELECT r.id FROM unnest(ids, lanes) r (id, lane) WHERE r.lane IS NULL AND (all_won OR r.id = ANY (won))
        ), gone AS (
            DELETE FROM farrier.schedule s USING ended
             WHERE s.kind = of_kind AND s.id = ended.id AND s.wake_seq = s.claimed_wake_seq
            RETURNING s.id
        ), woken AS (
            UPDATE farrier.schedule s
               SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0, due_at = farrier.now()
              FROM ended
             WHERE s.kind = of_kind AND s.id = ended.id AND s.wake_seq <> s.claimed_wake_seq
            RETURNING s.id
        )
        SELECT g.id, 'committed', false FROM gone g UNION ALL SELECT w.id, 'committed', true FROM woken w;
    END IF;
    -- Here, and not when the answer is on its way: what they refuse was never committed.
    SET CONSTRAINTS ALL IMMEDIATE;
END $$;

-- The nodes of a commit, and whatever else their runs leave. Workflows come first, because the node names the live one;
-- tasks end before new ones of their type begin, because only one may be live.
CREATE FUNCTION farrier.write_nodes(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    fit bigint[] := ARRAY(
        SELECT n.id FROM farrier.nodes n
          JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint, version bigint) ON c.run = n.id AND c.version = n.version
         ORDER BY n.id FOR NO KEY UPDATE OF n);
    overtaken bigint[] := '{}';
BEGIN
    IF changes ? 'ends' THEN
        -- A task that ended meanwhile, or is being finished right now, makes its run be decided anew: waiting for its
        -- agent's COMMIT would deadlock, because that one waits for the schedule row to wake it.
        WITH asked AS (
            SELECT c.run, c.task FROM jsonb_to_recordset(changes -> 'ends') c (run bigint, task bigint)
        ), free AS MATERIALIZED (
            SELECT t.id FROM farrier.node_tasks t
             WHERE t.id IN (SELECT a.task FROM asked a) AND t.status IN ('queued', 'dispatched')
             ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(DISTINCT a.run), '{}') INTO overtaken
          FROM asked a WHERE NOT EXISTS (SELECT FROM free f WHERE f.id = a.task);
    END IF;
    IF changes ? 'logins' THEN
        overtaken := overtaken || farrier.over_login_cap(changes -> 'logins');
    END IF;
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') OR overtaken <> '{}' THEN
        RETURN QUERY SELECT c.run, CASE WHEN c.run = ANY (fit) THEN interval '1 second' ELSE interval '0' END
                       FROM jsonb_to_recordset(changes -> 'runs') c (run bigint)
                      WHERE c.run <> ALL (fit) OR c.run = ANY (overtaken);
        changes := farrier.of_runs(changes, ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken)));
    END IF;

    IF changes ? 'nodes' THEN
        PERFORM farrier.write_workflows(changes);
        UPDATE farrier.nodes n
           SET version = n.version + 1,
               status = r.status,
               status_entered_at = CASE WHEN n.status = r.status THEN n.status_entered_at ELSE farrier.now() END,
               management = r.management,
               management_entered_at = CASE WHEN n.management = r.management THEN n.management_entered_at ELSE farrier.now() END,
               bmc_address = r.bmc_address,
               bmc_credential = r.bmc_credential,
               bmc = r.bmc,
               quarantine = r.quarantine,
               paused = r.paused,
               ever_onboarded = r.ever_onboarded,
               ever_active = r.ever_active,
               not_scrubbed = r.not_scrubbed,
               deleting = r.deleting,
               live_workflow_kind = r.live_workflow_kind,
               -- Looked up, not believed: the row just written or inserted.
               live_workflow_id = CASE r.live_workflow_kind
                   WHEN 'onboarding' THEN (SELECT o.id FROM farrier.node_onboardings o
                                            WHERE o.node_id = n.id AND o.status NOT IN ('completed', 'cancelled', 'reconciled'))
                   WHEN 'decommission' THEN (SELECT d.id FROM farrier.node_decommissions d
                                              WHERE d.node_id = n.id AND d.status NOT IN ('completed', 'cancelled', 'reconciled'))
               END
          FROM jsonb_populate_recordset(NULL::farrier.nodes, changes -> 'nodes') r
         WHERE n.id = r.id;
    END IF;
    IF changes ? 'gone' THEN  -- a deleted node's network addresses may be registered again
        DELETE FROM farrier.node_macs m USING jsonb_to_recordset(changes -> 'gone') c (run bigint) WHERE m.node_id = c.run;
    END IF;
    IF changes ? 'ends' OR changes ? 'tasks' THEN
        PERFORM farrier.write_tasks(changes);
    END IF;
    IF changes ? 'answers' THEN
        UPDATE farrier.intents i
           SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'answers') r (intent bigint, status text, reason text)
         WHERE i.id = r.intent AND i.status = 'pending';
        PERFORM pg_notify('farrier_intent_answered', '');  -- once per commit: equal ones are told once
    END IF;
    IF changes ? 'revoked' THEN  -- unused bootstrap tokens are worthless from now on
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'revoked') c (run bigint)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL;
    END IF;
    IF changes ? 'forgotten' THEN  -- the agents' keys open nothing any more
        DELETE FROM farrier.node_agents a USING jsonb_to_recordset(changes -> 'forgotten') c (run bigint) WHERE a.node_id = c.run;
    END IF;
END $$;

-- The runs whose new login may be the fourth within 5 minutes that fails at its BMC: they are decided anew, with what
-- others have tried there meanwhile. Counters of one BMC come one after the other, and each sees what the one before
-- committed. Nobody who waits here holds anything but its own runs, which no other commit wants; the order of the locks
-- is everybody's.
CREATE FUNCTION farrier.over_login_cap(logins jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    places text[];
BEGIN
    places := ARRAY(SELECT DISTINCT farrier.bmc_endpoint_of(r.address)
                      FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz)
                      JOIN farrier.nodes n ON n.id = r.run
                     WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL);
    IF places = '{}' THEN RETURN '{}'; END IF;
    PERFORM farrier.lock_keys('bmc_login', places);
    -- A statement of its own: it sees what was committed while the locks were waited for.
    RETURN ARRAY(
        WITH asked AS (
            SELECT r.run, farrier.bmc_endpoint_of(r.address) AS endpoint,
                   (SELECT count(*) FROM jsonb_array_elements_text(r.tries) t
                     WHERE t::timestamptz > farrier.now() - interval '5 minutes') AS own
              FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz, tries jsonb)
              JOIN farrier.nodes n ON n.id = r.run
             WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL
        )
        SELECT a.run FROM (SELECT *, row_number() OVER (PARTITION BY endpoint ORDER BY run) - 1 AS beside FROM asked) a
         WHERE a.own + a.beside
               + (SELECT count(*) FROM farrier.bmc_logins l
                   WHERE l.endpoint = a.endpoint AND l.node_id <> a.run AND l.at > farrier.now() - interval '5 minutes') > 3);
END $$;

-- Workflows that begin in this commit, and those that go on or end. A clock starts anew only when its value changes.
CREATE FUNCTION farrier.write_workflows(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF changes ? 'new_onboardings' THEN
        INSERT INTO farrier.node_onboardings (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'new_onboardings') r;
    END IF;
    IF changes ? 'new_decommissions' THEN
        INSERT INTO farrier.node_decommissions (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'new_decommissions') r;
    END IF;
    IF changes ? 'onboardings' THEN
        UPDATE farrier.node_onboardings w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, skipped = r.skipped,
               ended_at = CASE WHEN r.status IN ('completed', 'cancelled', 'reconciled') THEN farrier.now() END
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'onboardings') r
         WHERE w.id = r.id;
    END IF;
    IF changes ? 'decommissions' THEN
        UPDATE farrier.node_decommissions w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, skipped = r.skipped,
               ended_at = CASE WHEN r.status IN ('completed', 'cancelled', 'reconciled') THEN farrier.now() END
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'decommissions') r
         WHERE w.id = r.id;
    END IF;
END $$;

-- Tasks for agents, belonging to the node's live decommission. One that is live already is not made twice; looked for
-- before, because the index alone would wait for an agent that is just finishing it.
CREATE FUNCTION farrier.write_tasks(changes jsonb) RETURNS void
    LANGUAGE sql AS $$
    UPDATE farrier.node_tasks t
       SET status = r.status, result = to_jsonb(r.result), ended_at = farrier.now()
      FROM jsonb_to_recordset(changes -> 'ends') r (task bigint, status text, result text)
     WHERE t.id = r.task AND t.status IN ('queued', 'dispatched');
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, params, attempt, failures, result, ended_at)
    SELECT n.id, n.live_workflow_id, r.type, coalesce(r.ended, 'queued'), r.params, r.attempt, r.failures,
           to_jsonb(r.result), CASE WHEN r.ended IS NOT NULL THEN farrier.now() END
      FROM jsonb_to_recordset(changes -> 'tasks')
           AS r (run bigint, type text, ended text, params jsonb, attempt integer, failures integer, result text)
      JOIN farrier.nodes n ON n.id = r.run
     WHERE r.ended IS NOT NULL
        OR NOT EXISTS (SELECT FROM farrier.node_tasks t
                        WHERE t.node_id = n.id AND t.type = r.type AND t.status IN ('queued', 'dispatched'))
        ON CONFLICT (node_id, type) WHERE status IN ('queued', 'dispatched') DO NOTHING;
$$;

-- A decommission that begins takes over the live tasks of its node: only a decommission that was lost leaves any, and
-- its agent may be at work on them. One that an agent is just finishing stays as it is; it would wait for this commit.
CREATE FUNCTION farrier.inherit_tasks(begun jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE farrier.node_tasks t SET workflow_id = n.live_workflow_id
      FROM farrier.nodes n
     WHERE n.id = t.node_id AND t.id = ANY (ARRAY(
        SELECT o.id FROM farrier.node_tasks o JOIN jsonb_to_recordset(begun) r (node_id bigint) ON r.node_id = o.node_id
         WHERE o.status IN ('queued', 'dispatched') ORDER BY o.id FOR NO KEY UPDATE OF o SKIP LOCKED));
END $$;

SELECT farrier.grant_rights();
