-- Loads snapshots of nodes with all layers. Data that most nodes lack (a live workflow, its tasks) is read only for nodes that have
-- it, by a function, because the executor prepares every part of a statement in each call. The snapshot of a node that lacks them has
-- no fields for them: each field would cost time, and Node has defaults. Each OFFSET 0 keeps the planner from evaluating an expression
-- once for each use. A lookup of one row precedes each aggregate that is mostly empty.
SELECT n.id, farrier.now() AS now,
       CASE WHEN n.live_workflow_id IS NULL AND n.intents::text = '[]' AND n.gaps::text = '[]' AND n.unreachable::text = '[]'
                 AND n.braked = '{}' AND n.same_machine = '{}' AND n.paused IS NULL AND n.cleaned IS NULL AND NOT (n.deleting OR n.redeploying)
            THEN (SELECT row_to_json(r) FROM (
                 SELECT n.id, n.name, n.version, n.site, n.model, n.agentless, n.auto_manage, n.maas_id, n.maas_created, n.maas, n.onboarded_by,
                        n.macs, n.status, n.status_entered_at, n.management, n.management_entered_at, n.bmc_address, n.bmc_credential, n.bmc,
                        n.conditions, n.ever_onboarded, n.ever_active, n.agent) r)
            ELSE row_to_json(n) END::text AS snapshot
  FROM (
    SELECT n.id, n.name, n.version, n.site, n.model, n.agentless, n.auto_manage, w.id AS live_workflow_id,
           n.maas_id, n.maas_created, n.redeploying, n.cleaned,
           CASE WHEN n.maas_id IS NOT NULL THEN farrier.maas_observation(n.id, n.maas_id, n.site) END AS maas,
           w.region, coalesce(w.outages, '[]') AS outages,
           -- Brakes hold few nodes or none, so one lookup decides. It is not EXISTS, because a plan for EXISTS may read
           -- the whole table.
           CASE WHEN n.status = 'active' AND (
             SELECT bool_or(d.held) FROM farrier.departures d WHERE d.site = coalesce(n.site, '') AND d.node = n.id)
             THEN farrier.braked(n.site, n.id) ELSE '{}' END AS braked,
           coalesce(w.labels, '{}') AS labels, w.networks, w.ib_guids, w.candidate_of,
           -- There are few duplicates or none, so one lookup is enough for most loads.
           CASE WHEN EXISTS (SELECT FROM farrier.node_identities WHERE NOT (holds OR shared)) THEN farrier.same_machine(n.id) ELSE '{}' END AS same_machine,
           CASE WHEN n.maas_id IS NOT NULL THEN (
             SELECT o.mode FROM farrier.node_onboardings o
              WHERE o.node_id = n.id AND o.status = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.succeeded))
              ORDER BY o.id DESC LIMIT 1) END AS onboarded_by,
           CASE WHEN (SELECT true FROM farrier.node_macs m WHERE m.node_id = n.id LIMIT 1) THEN (
             SELECT json_agg(m.mac::text ORDER BY m.mac) FROM farrier.node_macs m WHERE m.node_id = n.id) ELSE '[]' END AS macs,
           n.status, n.status_entered_at, n.management, n.management_entered_at,
           n.bmc_address, n.bmc_credential,
           CASE WHEN logins.others IS NULL THEN n.bmc ELSE n.bmc || jsonb_build_object('others', logins.others) END AS bmc,
           n.paused,
           CASE WHEN (SELECT true FROM farrier.node_conditions c WHERE c.node = n.id LIMIT 1) THEN (
             SELECT json_agg(c ORDER BY c.since, c.source, c.id, c.target) FROM (
                SELECT c.source, c.id, c.target, c.message, c.requested, c.effect, c.released, c.since, c.seen_at,
                       c.expires_at FROM farrier.node_conditions c WHERE c.node = n.id) c) ELSE '[]' END AS conditions,
           n.ever_onboarded, n.ever_active, n.deleting,
           CASE WHEN a.enrolled_at IS NOT NULL THEN json_build_object('enrolled_at', a.enrolled_at,
                'last_heartbeat_at', a.last_heartbeat_at, 'health', a.health, 'ssh_seed_failures', a.ssh_seed_failures,
                -- Few agents run on another machine. Where MAAS has no machine, and the BMC's values are written alike, nothing is compared.
                'another', CASE WHEN n.maas_id IS NOT NULL OR lower(a.serial) <> lower(n.bmc ->> 'serial') OR lower(a.uuid) <> lower(n.bmc ->> 'uuid')
                  THEN farrier.another_machine(n.id, a.identities, a.uuid) END) END AS agent,
           -- Nothing waited in an outage that ended before. An agent that has not reported yet may use a door.
           CASE WHEN ended.of_controllers > waits.since THEN farrier.outages_since(waits.since, false) ELSE '[]' END AS gaps,
           CASE WHEN coalesce(a.by_door OR a.last_heartbeat_at IS NULL, true) AND ended.of_doors > waits.since
             THEN farrier.outages_since(waits.since, true) ELSE '[]' END AS unreachable,
           w.secrets_left, coalesce(w.expected, '{}') AS expected, w.workflow, coalesce(w.tasks, '[]') AS tasks,
           CASE WHEN (SELECT true FROM farrier.intents i WHERE i.node_id = n.id AND i.status = 'pending' LIMIT 1) THEN (
             SELECT coalesce(json_agg(i ORDER BY i.id), '[]') FROM (
                SELECT i.id, i.action, i.params, i.requested_by,
                       CASE i.action WHEN 'set_bmc' THEN farrier.bmc_holder(i.params ->> 'address', n.id)
                                     WHEN 'set' THEN farrier.set_conflict(n.id, i.params) END AS conflict,
                       CASE WHEN i.action = 'set_bmc' THEN farrier.bmc_logins_at(i.params ->> 'address', n.id) END AS logins
                  FROM farrier.intents i JOIN farrier.actions a USING (action)
                 WHERE i.node_id = n.id AND i.status = 'pending' AND (n.paused IS NULL OR a.while_paused OR n.status = 'deleted')
                 ORDER BY i.id LIMIT 100) i) ELSE '[]' END AS intents
      FROM farrier.nodes n
     CROSS JOIN (
           SELECT max(upper(o.times)) FILTER (WHERE o.pulse = 'controllers') AS of_controllers,
                  max(upper(o.times)) FILTER (WHERE o.pulse <> 'controllers') AS of_doors FROM farrier.outages o) ended
      LEFT JOIN farrier.load_workflows(ARRAY(
           SELECT busy.id FROM farrier.nodes busy
            WHERE busy.id = ANY ($1::bigint[]) AND (busy.live_workflow_id IS NOT NULL OR busy.status <> ALL (ARRAY(
                  SELECT m.node_status FROM farrier.workflow_mapping m WHERE (m.kind, m.workflow_status) = ('none', 'none')))))) w ON w.node = n.id
     CROSS JOIN LATERAL (
           SELECT jsonb_agg(jsonb_build_object('at', o.at, 'open', o.open)) AS others
             FROM farrier.bmc_logins o WHERE o.endpoint = n.bmc_endpoint AND o.node_id <> n.id) logins
      LEFT JOIN LATERAL (
           SELECT r.enrolled_at, r.last_heartbeat_at, r.health, r.ssh_seed_failures, r.by_door, r.serial, r.uuid, r.identities FROM farrier.node_agents r WHERE r.node_id = n.id) a ON true
     -- The node waits for its agent, in a stage of its workflow, or for a read of its BMC.
     CROSS JOIN LATERAL (
           SELECT least(a.last_heartbeat_at, CASE WHEN w.id IS NOT NULL THEN '-infinity'::timestamptz END,
                        CASE WHEN n.bmc_address IS NOT NULL AND n.management <> 'manageable' THEN n.management_entered_at END) AS since) waits
     WHERE n.id = ANY ($1::bigint[])
    OFFSET 0
  ) n
