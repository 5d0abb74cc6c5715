-- What MAAS regions tell us of nodes' machines, and what workflows have to remember of what they did there.

-- One row for each site that has a region: a resource of its own, so exactly one replica observes it.
CREATE TABLE farrier.maas_regions (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site             text        NOT NULL UNIQUE,
    version          bigint      NOT NULL DEFAULT 1,
    state            text        NOT NULL DEFAULT 'starting',
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    username         text,                 -- whom our key belongs to
    cursor           jsonb       NOT NULL DEFAULT '{}',  -- how far its events were read
    complete_at      timestamptz,          -- until when every event is known
    last_error       text,
    failure          text,
    failures         integer     NOT NULL DEFAULT 0,
    next_try_at      timestamptz,
    created_at       timestamptz NOT NULL DEFAULT farrier.now()
);

-- The last word on each node's machine. Written by observers alone. `since` is the first reading that showed this state,
-- `read_at` the last; `stale_since` says that something happened after it that is not in it.
CREATE TABLE farrier.node_observations (
    node_id     bigint      NOT NULL REFERENCES farrier.nodes,
    source      text        NOT NULL CHECK (source = 'maas'),
    system_id   text        NOT NULL,
    state       text        NOT NULL,
    since       timestamptz NOT NULL,
    read_at     timestamptz NOT NULL,
    stale_since timestamptz,
    detail      jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (node_id, source)
) WITH (fillfactor = 70);

ALTER TABLE farrier.nodes
    ADD maas_created boolean NOT NULL DEFAULT false,  -- its machine in MAAS was made by us
    ADD redeploying  boolean NOT NULL DEFAULT false;  -- a reimage ended; the onboarding that follows has not begun
ALTER TABLE farrier.node_onboardings ADD upstream jsonb NOT NULL DEFAULT '{}';
ALTER TABLE farrier.node_decommissions ADD upstream jsonb NOT NULL DEFAULT '{}';

-- What is known of a node's machine in MAAS, as its handler sees it; null for nothing.
CREATE FUNCTION farrier.maas_observation(node_id bigint, system_id text, site text) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT o.detail || jsonb_build_object(
                       'system_id', o.system_id, 'state', o.state, 'since', o.since, 'read_at', o.read_at,
                       'fresh_at', CASE WHEN o.stale_since IS NULL THEN greatest(o.read_at, r.complete_at) ELSE o.read_at END,
                       'ours', coalesce(o.detail ->> 'owner' = r.username, false))
              FROM farrier.node_observations o LEFT JOIN farrier.maas_regions r ON r.site = $3
             WHERE o.node_id = $1 AND o.source = 'maas' AND o.system_id = $2);

-- The nodes of a commit, and whatever else their runs leave. Workflows come first, because the node names the live one;
-- tasks end before new ones of their type begin, because only one may be live.
CREATE OR REPLACE FUNCTION farrier.write_nodes(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
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
               maas_id = r.maas_id,
               maas_created = r.maas_created,
               quarantine = r.quarantine,
               paused = r.paused,
               ever_onboarded = r.ever_onboarded,
               ever_active = r.ever_active,
               not_scrubbed = r.not_scrubbed,
               deleting = r.deleting,
               redeploying = r.redeploying,
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
    IF changes ? 'tokens' THEN  -- earlier unused ones are worthless; the same one again changes nothing
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL AND t.hash <> decode(c.digest, 'hex');
        INSERT INTO farrier.bootstrap_tokens (hash, node_id, expires_at)
        SELECT decode(c.digest, 'hex'), c.run, farrier.now() + make_interval(secs => c.seconds)
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text, seconds double precision)
            ON CONFLICT (hash) DO NOTHING;
    END IF;
    IF changes ? 'forgotten' THEN  -- the agents' keys open nothing any more
        DELETE FROM farrier.node_agents a USING jsonb_to_recordset(changes -> 'forgotten') c (run bigint) WHERE a.node_id = c.run;
    END IF;
END $$;

-- Workflows that begin in this commit, and those that go on or end. A clock starts anew only when its value changes.
CREATE OR REPLACE FUNCTION farrier.write_workflows(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF changes ? 'new_onboardings' THEN
        INSERT INTO farrier.node_onboardings (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, upstream, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.upstream, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'new_onboardings') r;
    END IF;
    IF changes ? 'new_decommissions' THEN
        INSERT INTO farrier.node_decommissions (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, upstream, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.upstream, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'new_decommissions') r;
    END IF;
    IF changes ? 'onboardings' THEN
        UPDATE farrier.node_onboardings w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, upstream = r.upstream, skipped = r.skipped,
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
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, upstream = r.upstream, skipped = r.skipped,
               ended_at = CASE WHEN r.status IN ('completed', 'cancelled', 'reconciled') THEN farrier.now() END
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'decommissions') r
         WHERE w.id = r.id;
    END IF;
END $$;

SELECT farrier.grant_rights();
