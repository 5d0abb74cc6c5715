-- Records in history that the brake of a site for a cause begins to hold nodes. The layer `brake` of a node has one row for each time:
-- while the hold lasts, the brake refuses the node each minute, but history does not repeat it. Called by held_by_brakes,
-- which increments the versions first. Runs as the owner, because no role may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_holds(of_site text, of_source text, nodes bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO history (kind, id, version, layer, from_value, to_value, at, cause, reason, source, controller, epoch)
    SELECT 'node', n.id, n.version, 'brake',
           (SELECT h.to_value FROM history h WHERE h.kind = 'node' AND h.id = n.id AND h.layer = 'brake' ORDER BY h.version DESC LIMIT 1),
           'held', farrier.now(), 'brake',
           format('the brake of %s for %s keeps the node in service: %s of %s nodes in service would have left it',
                  coalesce('site ' || nullif(b.site, ''), 'the nodes without a site'), b.source, b.departed, b.in_service),
           'held_by_brakes', '00000000-0000-0000-0000-000000000000', 0
      FROM nodes n
      JOIN brakes b ON b.site = record_holds.of_site AND b.source = record_holds.of_source AND b.site = coalesce(n.site, '')
     WHERE n.id = ANY (record_holds.nodes) AND EXISTS (SELECT FROM departures d WHERE (d.site, d.source, d.node) = (b.site, b.source, n.id) AND d.held);
$$;
