-- Returns kind $1, or all kinds by name if $1 is null, each with its first layer first: the states with limits and, if $2,
-- the number of resources in each, and the actions.
WITH counted AS MATERIALIZED (
    SELECT c.* FROM (SELECT WHERE $2::boolean) wanted CROSS JOIN LATERAL farrier.count_states($1::text) c)
SELECT json_build_object(
           'kind', k.kind,
           'states', (SELECT coalesce(json_agg(json_build_object(
                          'layer', s.layer, 'label', l.label, 'state', s.state, 'initial', s.initial, 'terminal', s.terminal, 'limit', extract(epoch FROM s.sla),
                          'why_none', coalesce(s.why_none, ''),
                          'count', CASE WHEN $2 AND NOT s.terminal AND l.relation IS NULL THEN coalesce(c.n, 0) END)
                          ORDER BY l.label <> k.kind, s.layer, s.terminal, NOT s.initial, s.state), '[]')
                        FROM farrier.kind_states s JOIN farrier.kind_layers l USING (kind, layer)
                        LEFT JOIN counted c ON (c.kind, c.layer, c.state) = (s.kind, s.layer, s.state)
                       WHERE s.kind = k.kind),
           'actions', (SELECT coalesce(json_agg(json_build_object(
                           'action', a.action, 'description', a.description, 'params', a.params, 'states', a.states, 'instead', a.instead)
                           ORDER BY a.action <> 'create', a.action), '[]')
                         FROM farrier.kind_actions a WHERE a.kind = k.kind))::text
  FROM farrier.kinds k
 WHERE $1::text IS NULL OR k.kind = $1
 ORDER BY k.kind
