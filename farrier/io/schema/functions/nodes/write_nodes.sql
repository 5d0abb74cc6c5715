-- Writes the nodes of a commit and all other results of their runs: workflows, details, tasks, responses to intents, bootstrap tokens
-- and agents. `changes` has the sections of the runs, an object of arrays whose elements name their run. versions and writes have
-- an element for each run: the version of its snapshot, and the place of what it writes in the arrays that follow, because many runs of a
-- commit write the same: the ID of their commit, the columns that most runs write, and the cause for which an active node leaves service, if
-- a brake counts it. The status is null if the run writes no columns, and if section `nodes` has all its columns; section `touched` has the
-- runs that write only other sections.
-- Skips the runs in `without`. Returns the other runs for which it wrote nothing, each with the delay after which it is due; see
-- begin_commit. Locks the nodes, and skips nodes that another transaction has locked. Writes workflows first, because a node's row names
-- its live workflow. Ends tasks before it creates tasks, because a node has at most one live task of a type. enable_seqscan is off so
-- that a plan made while nodes had few rows also finds rows by their keys. Called by write_nodes_and_networks.
CREATE OR REPLACE FUNCTION farrier.write_nodes(
    changes jsonb, without bigint[], runs bigint[], versions bigint[], writes integer[],
    commits uuid[], statuses text[], managements text[], workflows text[], causes text[])
    RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    fit bigint[] := ARRAY(
        SELECT n.id FROM unnest(runs) WITH ORDINALITY r (run, place) JOIN farrier.nodes n ON n.id = r.run AND n.version = versions[r.place]
         WHERE r.run <> ALL (without)
         ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED);
    overtaken bigint[] := '{}';
BEGIN
    IF changes ? 'ends' THEN
        -- A run whose task has ended meanwhile, or is just being finished, is decided again. Waiting for the agent's COMMIT would
        -- deadlock: its transaction may wait for the node.
        WITH asked AS (
            SELECT c.run, c.task FROM jsonb_to_recordset(changes -> 'ends') c (run bigint, task bigint)
        ), free AS MATERIALIZED (
            SELECT t.id FROM farrier.node_tasks t
             WHERE t.id IN (SELECT a.task FROM asked a) AND t.ended_at IS NULL
             ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(DISTINCT a.run), '{}') INTO overtaken
          FROM asked a WHERE NOT EXISTS (SELECT FROM free f WHERE f.id = a.task);
    END IF;
    IF changes ? 'logins' THEN
        overtaken := overtaken || farrier.over_login_cap(changes -> 'logins');
    END IF;
    IF array_remove(causes, NULL) <> '{}' THEN
        SELECT overtaken || farrier.held_by_brakes(array_agg(r.run), array_agg(causes[r.place])) INTO overtaken
          FROM unnest(runs, writes) r (run, place) JOIN unnest(fit) f ON f = r.run
         WHERE causes[r.place] IS NOT NULL AND f <> ALL (overtaken);
    END IF;
    IF cardinality(fit) < cardinality(runs) OR overtaken <> '{}' THEN
        RETURN QUERY SELECT r.run, CASE WHEN n.id IS NULL THEN interval '0' END
                       FROM unnest(runs) WITH ORDINALITY r (run, place)
                       LEFT JOIN farrier.nodes n ON n.id = r.run AND n.version = versions[r.place]
                      WHERE r.run <> ALL (without) AND r.run <> ALL (fit);
        RETURN QUERY SELECT f, interval '1 second' FROM unnest(fit) f WHERE f = ANY (overtaken);
        fit := ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken));
        without := ARRAY(SELECT r FROM unnest(runs) r WHERE r <> ALL (fit));
        changes := farrier.filter_runs(changes, fit);
    END IF;

    -- A commit with any write increments the version and stores its ID, so that a commit whose reply was lost can be settled.
    IF changes ? 'touched' THEN
        UPDATE farrier.nodes n SET version = n.version + 1, commit_id = c.commit_id
          FROM jsonb_to_recordset(changes -> 'touched') c (run bigint, commit_id uuid)
         WHERE n.id = c.run;
    END IF;
    IF changes ?| '{new_onboardings,new_decommissions,onboardings,decommissions}' THEN
        PERFORM farrier.write_workflows(changes);
    END IF;
    UPDATE farrier.nodes n
       SET version = n.version + 1,
           commit_id = commits[r.place],
           status = statuses[r.place],
           status_entered_at = CASE WHEN n.status = statuses[r.place] THEN n.status_entered_at ELSE farrier.now() END,
           management = managements[r.place],
           management_entered_at = CASE WHEN n.management = managements[r.place] THEN n.management_entered_at ELSE farrier.now() END,
           live_workflow_kind = workflows[r.place],
           -- The id is looked up and not taken from the run: a row that write_workflows inserted has its id only
           -- now.
           live_workflow_id = CASE workflows[r.place]
               WHEN 'onboarding' THEN (SELECT o.id FROM farrier.node_onboardings o
                                        WHERE o.node_id = n.id AND o.ended_at IS NULL)
               WHEN 'decommission' THEN (SELECT d.id FROM farrier.node_decommissions d
                                          WHERE d.node_id = n.id AND d.ended_at IS NULL)
           END
      FROM unnest(runs, writes) r (run, place)
     WHERE n.id = r.run AND statuses[r.place] IS NOT NULL AND r.run <> ALL (without);
    IF changes ? 'nodes' THEN
        UPDATE farrier.nodes n
           SET version = n.version + 1,
               commit_id = r.commit_id,
               status = r.status,
               status_entered_at = CASE WHEN n.status = r.status THEN n.status_entered_at ELSE farrier.now() END,
               management = r.management,
               management_entered_at = CASE WHEN n.management = r.management THEN n.management_entered_at ELSE farrier.now() END,
               bmc_address = r.bmc_address,
               bmc_credential = r.bmc_credential,
               -- When this power was first read. The time of the commit is never earlier than the reading, so a heartbeat that is
               -- newer was sent after the reading.
               bmc = CASE WHEN n.bmc ->> 'power' IS NOT DISTINCT FROM r.bmc ->> 'power' THEN r.bmc
                          ELSE r.bmc || jsonb_build_object('power_since', farrier.now()) END,
               maas_id = r.maas_id,
               maas_created = r.maas_created,
               paused = r.paused,
               ever_onboarded = r.ever_onboarded,
               ever_active = r.ever_active,
               deleting = r.deleting,
               redeploying = r.redeploying,
               cleaned = r.cleaned,
               live_workflow_kind = r.live_workflow_kind,
               live_workflow_id = CASE r.live_workflow_kind
                   WHEN 'onboarding' THEN (SELECT o.id FROM farrier.node_onboardings o
                                            WHERE o.node_id = n.id AND o.ended_at IS NULL)
                   WHEN 'decommission' THEN (SELECT d.id FROM farrier.node_decommissions d
                                              WHERE d.node_id = n.id AND d.ended_at IS NULL)
               END
          FROM jsonb_populate_recordset(NULL::farrier.nodes, changes -> 'nodes') r
         WHERE n.id = r.id;
    END IF;
    IF changes ?| '{conditions,ended_conditions}' THEN
        PERFORM farrier.write_conditions(changes);
    END IF;
    IF changes ? 'details' THEN
        PERFORM farrier.write_details(changes -> 'details');
    END IF;
    IF changes ? 'new_decommissions' THEN
        PERFORM farrier.inherit_tasks(changes -> 'new_decommissions');
    END IF;
    IF changes ? 'ends' OR changes ? 'tasks' THEN
        PERFORM farrier.write_tasks(changes);
    END IF;
    IF changes ? 'answers' THEN
        PERFORM farrier.answer_intents(changes -> 'answers');
        PERFORM pg_notify('farrier_intent_answered', '');  -- equal notifications of a transaction are sent once
    END IF;
    IF changes ? 'revoked' THEN  -- nodes whose unused bootstrap tokens are revoked
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'revoked') c (run bigint)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL;
    END IF;
    IF changes ? 'tokens' THEN  -- a new token revokes unused tokens; the lifetime of a known token begins again
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL AND t.hash <> decode(c.digest, 'hex');
        INSERT INTO farrier.bootstrap_tokens (hash, node_id, expires_at)
        SELECT decode(c.digest, 'hex'), c.run, farrier.now() + make_interval(secs => c.seconds)
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text, seconds double precision)
            ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at, revoked_at = NULL
             WHERE bootstrap_tokens.used_at IS NULL AND bootstrap_tokens.node_id = excluded.node_id;
    END IF;
    IF changes ? 'lifted' THEN  -- nodes whose hold after a restore ends
        UPDATE farrier.restore_holds h SET lifted_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'lifted') c (run bigint)
         WHERE h.kind = 'node' AND h.id = c.run AND h.lifted_at IS NULL;
    END IF;
    IF changes ? 'forgotten' THEN  -- nodes whose agents are removed, with their keys and conditions
        DELETE FROM farrier.node_conditions d USING jsonb_to_recordset(changes -> 'forgotten') c (run bigint)
         WHERE d.node = c.run AND d.source = 'agent';
        DELETE FROM farrier.node_agents a USING jsonb_to_recordset(changes -> 'forgotten') c (run bigint) WHERE a.node_id = c.run;
    END IF;
END $$;
