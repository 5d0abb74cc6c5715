-- Returns resources of a kind as JSON for display, in the order of name and id: at most `most` resources after the key
-- (after_name, after_id). one_id selects one resource (null: all). Empty arrays select any state and any site. `states`
-- may be states of any layer; each includes its substates. With `ended`, includes resources that have ended. `named`
-- are names or IDs, and `matching` regular expressions of names: a resource fits if any of them does, or if both are
-- empty. See detail_of for `detail`; `layers` has the current state of each layer, with layer `state` first.
CREATE OR REPLACE FUNCTION farrier.show_resources(
    kind text, one_id bigint, states text[], sites text[], ended boolean, after_name text, after_id bigint, most integer,
    named text[] DEFAULT '{}', matching text[] DEFAULT '{}')
    RETURNS SETOF jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := relation_of(kind);
    is_in text := (SELECT coalesce(string_agg(format('r.%1$I = ANY ($3) OR split_part(r.%1$I, ''/'', 1) = ANY ($3)', l.layer), ' OR '), 'false')
                     FROM kind_layers l WHERE l.kind = show_resources.kind);
BEGIN
    RETURN QUERY EXECUTE format($q$
        SELECT jsonb_build_object(
                   'kind', $1, 'id', r.id, 'name', r.name, 'site', r.site, 'model', to_jsonb(r) -> 'model', 'version', r.version, 'state', r.state,
                   'state_entered_at', r.state_entered_at, 'created_at', r.created_at, 'ended_at', r.ended_at,
                   'last_error', r.last_error,
                   'detail', %2$s, 'layers', s.layers,
                   'outcome', o.outcome, 'outcome_at', o.at, 'step', e.step, 'step_begun_at', e.begun_at,
                   'controller', so.controller, 'swept_at', so.swept_at, 'restored_at', h.since)
          FROM (SELECT * FROM %1$s r
                 WHERE ($2 IS NULL OR r.id = $2) AND ($5 OR r.ended_at IS NULL)
                   AND (cardinality($3) = 0 OR %3$s)
                   AND (cardinality($4) = 0 OR r.site = ANY ($4))
                   AND (r.name, r.id) > ($6, $7)
                   AND (cardinality($9) = 0 AND cardinality($10) = 0
                        OR r.name = ANY ($9) OR r.id::text = ANY ($9) OR r.name ~ ANY ($10))
                 ORDER BY r.name, r.id LIMIT $8) r
          LEFT JOIN LATERAL (
               SELECT coalesce(jsonb_agg(jsonb_build_object(
                          'layer', l.layer, 'label', l.label, 'state', to_jsonb(r) -> l.layer, 'since', to_jsonb(r) -> (l.layer || '_entered_at'),
                          'default_limit', extract(epoch FROM s.sla), 'why_none', coalesce(s.why_none, ''))
                          ORDER BY l.layer <> 'state', l.layer), '[]') AS layers
                 FROM farrier.kind_layers l
                 LEFT JOIN farrier.kind_states s ON s.kind = l.kind AND s.layer = l.layer AND s.state = to_jsonb(r) ->> l.layer
                WHERE l.kind = $1) s ON true
          LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
          LEFT JOIN farrier.effects e ON e.kind = $1 AND e.resource = r.id
          LEFT JOIN farrier.restore_holds h ON h.kind = $1 AND h.id = r.id AND h.lifted_at IS NULL
          LEFT JOIN farrier.shard_owners so ON r.ended_at IS NULL AND so.kind = $1 AND so.shard = farrier.shard_of(r.id)
         ORDER BY r.name, r.id
    $q$, relation, detail_of(kind, relation), is_in) USING kind, one_id, states, sites, ended, after_name, after_id, most, named, matching;
END $$;
