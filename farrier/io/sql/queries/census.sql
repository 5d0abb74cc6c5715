-- Counts the fleet: states and their oldest entries, clocks above their limits, workflows that wait for an operator,
-- health and power. $1 to $6: limits as (kind, state, substate, scope, name, lasts), scope '', 'model' or 'site'; $7
-- offline_after, $8 observation_ttl, $9 how many clocks above a limit to name; $10 to $14: limits of registered kinds
-- that differ from the kinds' own, as for farrier.count_resources; $15 how many alerts to name; $16 how long a resource
-- must fail to be counted; $17 names of conditions (farrier.model.node.conditions.NAMES). Reads one index and the agents completely, and otherwise only exceptional rows. Conditions
-- use `<` and `>` instead of `<>`, because an index scan needs ranges.
WITH counted AS MATERIALIZED (
    SELECT status, count(*) AS n, min(status_entered_at) AS first FROM farrier.nodes WHERE status < 'deleted' GROUP BY status
    UNION ALL
    SELECT status, count(*), min(status_entered_at) FROM farrier.nodes WHERE status > 'deleted' GROUP BY status),
fleet AS MATERIALIZED (SELECT coalesce(sum(n), 0)::bigint AS n FROM counted),
-- Most nodes are manageable, on and healthy. This query counts only the other nodes, and computes the rest as the
-- difference.
unsettled AS MATERIALIZED (
    SELECT management, count(*) AS n, min(management_entered_at) AS first
      FROM farrier.nodes WHERE management < 'manageable' AND status <> 'deleted' GROUP BY management
    UNION ALL
    SELECT management, count(*), min(management_entered_at)
      FROM farrier.nodes WHERE management > 'manageable' AND status <> 'deleted' GROUP BY management),
manageable AS MATERIALIZED (
    SELECT fleet.n - (SELECT coalesce(sum(n), 0)::bigint FROM unsettled) AS n,
           (SELECT management_entered_at FROM farrier.nodes WHERE management = 'manageable' AND status <> 'deleted'
             ORDER BY management_entered_at LIMIT 1) AS first
      FROM fleet),
not_on AS MATERIALIZED (
    SELECT CASE power WHEN 'off' THEN 'off' ELSE 'unknown' END AS power, count(*) AS n FROM farrier.nodes
     WHERE power IS DISTINCT FROM 'on' AND management = 'manageable' AND status <> 'deleted' GROUP BY 1),
workflows AS MATERIALIZED (
    SELECT w.kind, w.node_id, w.status, w.substate, w.entered_at, w.failure_class
      FROM farrier.node_workflows w WHERE w.ended_at IS NULL),
of_kinds AS MATERIALIZED (
    SELECT c.kind, split_part(c.state, '/', 1) AS state, split_part(c.state, '/', 2) AS substate, c.n, c.first, c.above, c.lasts
      FROM farrier.count_resources($10::text[], $11::text[], $12::text[], $13::text[], $14::text[]::interval[]) c),
places AS (
    SELECT 'node' AS kind, status AS state, '' AS substate, n, first FROM counted
    UNION ALL SELECT 'management', management, '', n, first FROM unsettled
    UNION ALL SELECT 'management', 'manageable', '', n, first FROM manageable
    UNION ALL SELECT kind, status, substate, count(*), min(entered_at) FROM workflows GROUP BY kind, status, substate
    UNION ALL SELECT kind, state, substate, n, first FROM of_kinds),
-- By how much each clock is above its own limit; few columns, because there may be as many rows as nodes.
above AS MATERIALIZED (
    SELECT c.place, c.node_id AS id, date_part('epoch', c.excess) AS seconds
      FROM farrier.late_clocks($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]::interval[], farrier.now()) c
     WHERE NOT c.paused
       AND NOT EXISTS (SELECT FROM farrier.restore_holds h WHERE h.kind = 'node' AND h.id = c.node_id AND h.lifted_at IS NULL)),
above_by_place AS (
    SELECT ($1)[place] AS kind, ($2)[place] AS state, ($3)[place] AS substate, count(*) AS n FROM above GROUP BY place),
-- The $9 clocks of each state that are furthest above its limit, in their order. Clocks with the same excess are in the order of
-- ids, so that all replicas name the same resources. Other kinds than nodes are read only if the count found a late resource.
furthest AS (
    SELECT 'node' AS resource_kind, a.id, NULL AS name, ($1)[a.place] AS kind, ($2)[a.place] AS state, ($3)[a.place] AS substate,
           a.seconds, a.position
      FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY seconds DESC, id) AS position
              FROM above WHERE $9::integer > 0) a
     WHERE a.position <= $9::integer
    UNION ALL
    SELECT r.kind, r.id, r.name, l.label, split_part(r.state, '/', 1), split_part(r.state, '/', 2),
           date_part('epoch', farrier.now() - r.since - r.lasts),
           row_number() OVER (PARTITION BY l.label, r.state ORDER BY r.since + r.lasts, r.id)
      FROM farrier.late_resources($10::text[], $11::text[], $12::text[], $13::text[], $14::text[]::interval[], $9::integer) r
      JOIN farrier.kind_layers l USING (kind, layer)
     WHERE $9::integer > 0 AND EXISTS (SELECT FROM of_kinds WHERE above > 0)),
-- For each state the five resources that are furthest above its limit, taken in turns, so that many in one state do not
-- hide the few in another; then the worst resources of the fleet, each by its worst clock. These are among `furthest`: if
-- the worst clock of a resource is not, then $9 other resources are worse. Reads names of nodes only for this result.
worst AS (
    SELECT coalesce(w.name, n.name) AS name, w.resource_kind, w.kind, w.state, w.substate, w.seconds
      FROM (SELECT *
              FROM (SELECT *, row_number() OVER (PARTITION BY resource_kind, id ORDER BY seconds DESC, kind, state) = 1 AS is_worst
                      FROM furthest) f
             WHERE position <= 5 OR is_worst
             ORDER BY least(position, 6), seconds DESC, resource_kind, id
             LIMIT $9::integer) w
      LEFT JOIN farrier.nodes n ON w.resource_kind = 'node' AND n.id = w.id),
failing AS (
    SELECT o.kind, o.error, count(*) AS n FROM farrier.outcomes o
     WHERE o.error IS NOT NULL AND o.error_at < farrier.now() - $16::interval GROUP BY o.kind, o.error),
waiting AS (
    SELECT o.kind, o.ends_by, count(*) AS n FROM farrier.outcomes o WHERE o.ends_by IS NOT NULL GROUP BY o.kind, o.ends_by),
agents AS MATERIALIZED (
    SELECT count(*) AS n,
           count(*) FILTER (WHERE a.last_heartbeat_at IS NULL OR a.last_heartbeat_at < farrier.now() - $7::interval) AS silent,
           max(a.last_heartbeat_at) FILTER (WHERE a.by_door) AS reached_at
      FROM farrier.node_agents a),
-- Nodes in statuses without heartbeats, of which there are few.
silent_elsewhere AS (
    SELECT count(*) AS n
      FROM farrier.nodes n CROSS JOIN LATERAL (
           SELECT FROM farrier.node_agents a
            WHERE a.node_id = n.id AND (a.last_heartbeat_at IS NULL OR a.last_heartbeat_at < farrier.now() - $7::interval) OFFSET 0) a
     WHERE n.status IN ('bootstrap_issued', 'enrolling', 'retired', 'removing', 'deleted')),
unwell AS MATERIALIZED (
    SELECT a.condition, count(*) AS n FROM farrier.node_agents a
     WHERE a.condition <> 'ok' AND a.last_heartbeat_at >= farrier.now() - $7::interval GROUP BY a.condition),
health AS (
    SELECT condition AS health, n FROM unwell
    UNION ALL SELECT 'silent', silent FROM agents
    UNION ALL SELECT 'none', fleet.n - agents.n FROM fleet, agents
    UNION ALL SELECT 'ok', agents.n - silent - (SELECT coalesce(sum(n), 0)::bigint FROM unwell) FROM agents),
-- Alerts of agents with a recent heartbeat, by id, each node once for each id; agents choose the ids, so only the most frequent are
-- named.
alerts AS MATERIALIZED (
    SELECT DISTINCT a.node_id, left(e.alert ->> 'id', 64) AS id
      FROM farrier.node_agents a
      JOIN farrier.nodes n ON n.id = a.node_id AND n.status <> 'deleted'
     CROSS JOIN LATERAL jsonb_array_elements(
           CASE jsonb_typeof(a.health -> 'alerts') WHEN 'array' THEN a.health -> 'alerts' END) AS e (alert)
     WHERE a.condition <> 'ok' AND a.last_heartbeat_at >= farrier.now() - $7::interval AND e.alert ->> 'id' IS NOT NULL),
named_alerts AS MATERIALIZED (
    SELECT id, count(*) AS n FROM alerts WHERE id <> 'other' GROUP BY id ORDER BY count(*) DESC, id COLLATE "C" LIMIT $15::integer),
by_alert AS (
    SELECT id, n FROM named_alerts
    UNION ALL
    SELECT 'other', count(DISTINCT a.node_id) FROM alerts a WHERE NOT EXISTS (SELECT FROM named_alerts m WHERE m.id = a.id)),
-- A commit stores a failed reading at once, with the time of the last successful reading. A BMC that was verified before and cannot
-- be verified again, such as with a new version of its credential, counts as unread, too.
unread AS MATERIALIZED (
    SELECT u.failure, count(*) AS n, count(*) FILTER (WHERE u.power_at IS NULL OR u.power_at < farrier.now() - $8::interval) AS stale
      FROM (SELECT n.sync_failure AS failure, (n.bmc ->> 'power_at')::timestamptz AS power_at
              FROM farrier.nodes n
             WHERE n.sync_failure IS NOT NULL AND n.management = 'manageable' AND n.status <> 'deleted'
            UNION ALL
            SELECT n.bmc ->> 'failure', (n.bmc ->> 'power_at')::timestamptz
              FROM farrier.nodes n
             WHERE (n.management < 'manageable' OR n.management > 'manageable') AND n.status <> 'deleted'
               AND n.bmc ->> 'failure' IS NOT NULL AND n.bmc ->> 'verified_at' IS NOT NULL) u
     GROUP BY u.failure),
shards AS (
    -- Replicas on one host have the same name.
    SELECT s.kind, coalesce(s.controller || ' (' || left(s.controller_id::text, 8) || ')', '') AS controller, count(*) AS n, extract(epoch FROM farrier.now() - min(s.swept_at))::double precision AS lag
      FROM farrier.shard_owners s GROUP BY s.kind, s.controller, s.controller_id)
SELECT row_to_json(x)::text
  FROM (
    SELECT farrier.now() AS now,
           (SELECT coalesce(json_agg(json_build_object('kind', kind, 'state', state, 'substate', substate, 'count', n,
                       'oldest', greatest(extract(epoch FROM farrier.now() - first), 0))), '[]') FROM places) AS places,
           (SELECT coalesce(json_agg(json_build_object('kind', kind, 'state', state, 'substate', substate, 'count', n)), '[]')
              FROM (SELECT * FROM above_by_place
                    UNION ALL SELECT kind, state, substate, above FROM of_kinds WHERE above > 0) c) AS above,
           (SELECT coalesce(json_agg(json_build_object('kind', kind, 'state', state, 'substate', substate,
                       'seconds', extract(epoch FROM lasts))), '[]')
              FROM of_kinds WHERE lasts IS NOT NULL) AS kind_limits,
           (SELECT coalesce(json_agg(w), '[]')
              FROM (SELECT * FROM worst ORDER BY seconds DESC, resource_kind, name) w) AS worst,
           (SELECT coalesce(json_object_agg(failure, n), '{}')
              FROM (SELECT coalesce(w.failure_class, 'internal') AS failure, count(*) AS n
                      FROM workflows w JOIN farrier.nodes n ON n.id = w.node_id
                     WHERE w.status = 'failed_manual_intervention' AND (n.paused IS NULL OR n.deleting)
                     GROUP BY 1) c) AS manual,
           (SELECT coalesce(json_agg(json_build_object('kind', kind, 'controller', controller, 'count', n, 'lag', greatest(lag, 0))), '[]') FROM shards) AS shards,
           (SELECT count(*) FROM farrier.wakes) AS wakes,
           (SELECT count(*) FROM farrier.all_intents WHERE status = 'pending') AS intents_pending,
           (SELECT greatest(coalesce(extract(epoch FROM farrier.now() - min(first)), 0), 0)
              FROM (SELECT min(i.created_at) AS first
                      FROM farrier.intents i JOIN farrier.nodes n ON n.id = i.node_id LEFT JOIN farrier.actions a ON a.action = i.action
                     WHERE i.status = 'pending' AND (n.paused IS NULL OR a.while_paused OR n.status = 'deleted')
                       AND NOT EXISTS (SELECT FROM farrier.restore_holds h WHERE h.kind = 'node' AND h.id = n.id AND h.lifted_at IS NULL)
                    UNION ALL
                    SELECT min(i.created_at) FROM farrier.resource_intents i
                     WHERE i.status = 'pending'
                       AND NOT EXISTS (SELECT FROM farrier.restore_holds h WHERE h.kind = i.kind AND h.id = i.resource_id AND h.lifted_at IS NULL)) p) AS oldest_intent,
           (SELECT json_object_agg(health, n) FROM health) AS health,
           (SELECT json_object_agg(id, n) FROM by_alert) AS alerts,
           (SELECT json_object_agg(power, n)
              FROM (SELECT power, sum(n)::bigint AS n
                      FROM (SELECT power, n FROM not_on
                            UNION ALL SELECT 'unknown', coalesce(sum(n), 0) FROM unsettled
                            UNION ALL SELECT 'on', m.n - (SELECT coalesce(sum(n), 0) FROM not_on) FROM manageable m) p
                     GROUP BY power) c) AS power,
           (SELECT count(*) FROM farrier.nodes WHERE paused IS NOT NULL AND status <> 'deleted') AS paused,
           (SELECT count(DISTINCT node_id) FROM farrier.node_identities
             WHERE NOT shared AND (kind, value) IN (
                       SELECT d.kind, d.value FROM farrier.node_identities d WHERE NOT (d.holds OR d.shared))) AS same_machine,
           (SELECT count(DISTINCT b.site) FROM farrier.brakes_holding b) AS brakes_holding,
           (SELECT coalesce(json_object_agg(kind, n), '{}')
              FROM (SELECT k.kind, count(h.id) AS n FROM farrier.kinds k LEFT JOIN farrier.restore_holds h ON h.kind = k.kind AND h.lifted_at IS NULL
                     GROUP BY k.kind) c) AS restored,
           (SELECT a.silent - e.n FROM agents a, silent_elsewhere e) AS heartbeats_stale,
           (SELECT greatest(coalesce(extract(epoch FROM farrier.now() - a.reached_at), 0), 0) FROM agents a) AS agent_reached,
           (SELECT coalesce(json_agg(d), '[]')
              FROM (SELECT d.kind, farrier.now() - d.renewed_at <= (farrier.read_constants()).pulse_lost AS alive, count(*) AS count
                      FROM farrier.doors d GROUP BY 1, 2) d) AS doors,
           (SELECT coalesce(json_object_agg(d.pulse, greatest(extract(epoch FROM farrier.now() - d.since), 0)), '{}') FROM farrier.dead_doors d) AS doors_dead,
           (SELECT coalesce(json_agg(json_build_object('kind', kind, 'error', error, 'count', n)), '[]') FROM failing) AS failing,
           (SELECT coalesce(json_agg(json_build_object('kind', kind, 'ends_by', ends_by, 'count', n)), '[]') FROM waiting) AS waiting,
           (SELECT coalesce(json_object_agg(failure, n), '{}') FROM unread) AS unread_power,
           (SELECT json_build_object(
                       'bmc', (SELECT coalesce(sum(stale), 0)::bigint FROM unread),
                       'maas', coalesce(sum(c.n) FILTER (WHERE r.state <> 'failing'), 0)::bigint,
                       'maas_failing', coalesce(sum(c.n) FILTER (WHERE r.state = 'failing'), 0)::bigint)
              FROM farrier.maas_regions r CROSS JOIN LATERAL (
                   SELECT count(*) AS n FROM farrier.node_observations o
                    WHERE o.site = r.site AND (o.read_at IS NULL OR o.read_at < farrier.now() - $8::interval)
                      AND (o.stale_since IS NOT NULL OR r.complete_at IS NULL OR r.complete_at < farrier.now() - $8::interval)) c
             WHERE r.ended_at IS NULL) AS observations_stale,
           (SELECT count(*) FROM farrier.maas_regions r JOIN farrier.node_observations o ON o.site = r.site AND o.state = 'unknown'
             WHERE r.ended_at IS NULL) AS maas_status_unknown,
           (SELECT coalesce(json_object_agg(c.name, c.n), '{}')
              FROM (SELECT coalesce(k.name, split_part(s.source, ':', 1) || '/*') AS name, count(DISTINCT s.node) AS n
                      FROM farrier.node_conditions s
                      LEFT JOIN unnest($17::text[]) k (name) ON k.name = s.source || '/' || s.id
                     GROUP BY 1) c) AS conditions,
           (SELECT coalesce(json_object_agg(d.source, d.dropped), '{}') FROM farrier.condition_drops d) AS condition_drops,
           (SELECT coalesce(json_agg(m), '[]')
              FROM (SELECT m.name AS monitor, count(c.node) FILTER (WHERE c.expires_at > farrier.now()) AS known,
                           count(c.node) FILTER (WHERE c.expires_at <= farrier.now()) AS unknown,
                           (SELECT count(*) FROM farrier.monitor_refusals r WHERE r.monitor = m.name AND r.last_at > farrier.now() - m.lasts) AS refused
                      FROM farrier.monitors m LEFT JOIN farrier.node_conditions c ON c.source = 'monitor:' || m.name
                     GROUP BY m.name) m) AS monitors
  ) x
