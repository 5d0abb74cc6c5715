-- Renews a controller, and returns all controllers that are not declared dead and all shards of its kinds, as JSON. The timeline
-- changes when a standby is promoted. In a restored database, no controller is renewed until it has joined anew.
WITH here AS (
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline
), renewed AS (
    UPDATE farrier.controllers c
       SET renewals = c.renewals + 1, renewed_at = farrier.now(), kinds = $2::text[], lags = $3, leaving = $4, timeline = h.timeline
      FROM here h
     WHERE c.id = $1 AND NOT c.expired AND NOT farrier.is_restored() AND farrier.on_disk()
    RETURNING c.id
)
SELECT json_build_object(
           'renewed', EXISTS (SELECT FROM renewed),
           'timeline', (SELECT h.timeline FROM here h),
           'started', extract(epoch FROM pg_postmaster_start_time()),
           'controllers', (SELECT coalesce(json_agg(json_build_object('id', c.id, 'kinds', c.kinds, 'renewals', c.renewals,
                                                                      'timeline', c.timeline, 'leaving', c.leaving)), '[]')
                             FROM farrier.controllers c WHERE NOT c.expired),
           'expired', EXISTS (SELECT FROM farrier.controllers c WHERE c.expired),
           'shards', (SELECT coalesce(json_agg(json_build_array(json_build_array(s.kind, s.shard), s.owner, s.epoch)), '[]')
                        FROM farrier.shards s WHERE s.kind = ANY ($2::text[])))::text
