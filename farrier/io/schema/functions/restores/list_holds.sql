-- Returns the resources of a kind (null: of all kinds) at a site (null: at all sites) that are held after a restore. `difference` is why
-- a lift needs a choice of the operator: what differs from the systems outside, or that nothing was compared yet; null if there is
-- nothing. `choice` is set while farrier carries out a choice. FR400 for an unknown kind.
CREATE OR REPLACE FUNCTION farrier.list_holds(of_kind text DEFAULT NULL, of_site text DEFAULT NULL)
    RETURNS TABLE (kind text, id bigint, name text, site text, since timestamptz, choice text, difference text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF of_kind IS NOT NULL THEN PERFORM kind_of(of_kind); END IF;
    FOR one IN SELECT k.* FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE (k.from_template OR k.kind = 'node') AND (of_kind IS NULL OR k.kind = of_kind) ORDER BY k.kind <> 'node', k.kind LOOP
        RETURN QUERY EXECUTE format($q$
            SELECT $1, h.id, r.%2$I::text, r.site, h.since, h.choice,
                   CASE WHEN o.outcome IS NULL OR $1 = 'node' AND o.outcome ->> 'outcome' IN ('update', 'transition')
                        THEN 'not compared with the systems outside yet'
                        WHEN o.outcome ->> 'outcome' IN ('wait', 'error') THEN coalesce(o.outcome ->> 'reason', 'the last run failed') END
              FROM farrier.restore_holds h
              JOIN %1$s r ON r.id = h.id
              LEFT JOIN farrier.outcomes o ON o.kind = h.kind AND o.id = h.id
             WHERE h.kind = $1 AND h.lifted_at IS NULL AND ($2 IS NULL OR r.site = $2) AND %3$s
             ORDER BY r.%2$I $q$, one.relation, one.named, one.living) USING one.kind, of_site;
    END LOOP;
END $$;
