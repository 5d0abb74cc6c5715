-- Records in these nodes that the end of a run is unknown: a power action may have been sent (switching is unsure), and a login may
-- have been refused, so it stays counted and no run may use it (trying is removed). Called by mend_rows.
CREATE OR REPLACE FUNCTION farrier.node_unseen(ids bigint[]) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    UPDATE farrier.nodes n
       SET bmc = (n.bmc - 'trying') || CASE WHEN n.bmc ? 'switching'
                                           THEN jsonb_build_object('switching', n.bmc -> 'switching' || '{"unsure": true}') ELSE '{}' END
     WHERE n.id = ANY (ids) AND n.bmc ?| ARRAY['switching', 'trying']
$$;
