-- Records the regions that a controller has configured: [{site, url, motion_seconds, sweep_seconds, requires}], and enqueues
-- them. Leaves other regions unchanged, because another controller may have configured them. If the URL of a region
-- changes, its earlier readings become invalid. May be repeated. Locks the regions in the order of ids.
CREATE OR REPLACE FUNCTION farrier.set_sites(sites jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM farrier.maas_regions r
     WHERE r.ended_at IS NULL AND r.name IN (SELECT c.site FROM jsonb_to_recordset(sites) c (site text)) ORDER BY r.id FOR NO KEY UPDATE;
    INSERT INTO farrier.maas_regions AS r (name, site, url, motion_every, sweep_every, requires, configured_at)
    SELECT c.site, c.site, c.url, make_interval(secs => c.motion_seconds), make_interval(secs => c.sweep_seconds),
           coalesce(c.requires, 'none'), farrier.now()
      FROM jsonb_to_recordset(sites)
           c (site text, url text, motion_seconds double precision, sweep_seconds double precision, requires text)
     ORDER BY c.site
        ON CONFLICT (name) WHERE ended_at IS NULL DO UPDATE
       SET version = r.version + 1, motion_every = excluded.motion_every, sweep_every = excluded.sweep_every, requires = excluded.requires,
           identified_at = NULL, next_try_at = NULL, configured_at = excluded.configured_at,
           -- Another region has other events, other users, and other machines with the same ids, so earlier readings do not apply.
           since = CASE WHEN r.url = excluded.url THEN r.since ELSE farrier.now() END,
           url = excluded.url, cursor = CASE WHEN r.url = excluded.url THEN r.cursor ELSE '{}' END,
           complete_at = CASE WHEN r.url = excluded.url THEN r.complete_at END,
           username = CASE WHEN r.url = excluded.url THEN r.username END;
    PERFORM farrier.enqueue('maas_region', r.id) FROM farrier.maas_regions r
      JOIN jsonb_to_recordset(sites) c (site text) ON c.site = r.name AND r.ended_at IS NULL;
END $$;
