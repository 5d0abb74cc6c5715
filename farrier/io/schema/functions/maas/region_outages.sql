-- Returns the periods in which farrier could not read the region of a site, as JSON [{began_at, ended_at}]; the limits
-- of stages exclude these periods. Covers the last hundred changes of state within a week, which is longer than any
-- stage waits. In PL/pgSQL for the reason given at is_restored.
CREATE OR REPLACE FUNCTION farrier.region_outages(site text) RETURNS json
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(json_agg(o), '[]') FROM (
        SELECT r.state_entered_at AS began_at, NULL::timestamptz AS ended_at
          FROM farrier.maas_regions r WHERE r.name = $1 AND r.ended_at IS NULL AND r.state <> 'observing'
         UNION ALL
        (SELECT h.at - make_interval(secs => h.seconds_in_source), h.at
           FROM farrier.maas_regions r
          CROSS JOIN LATERAL (
                SELECT * FROM farrier.history h
                 WHERE h.kind = 'maas_region' AND h.id = r.id AND h.layer = 'state' ORDER BY h.version DESC LIMIT 100) h
          WHERE r.name = $1 AND r.ended_at IS NULL AND h.from_value <> 'observing' AND h.at > farrier.now() - interval '7 days')) o);
END $$;
