-- Nodes in service that a brake keeps there although they have a cause to leave, and when it last refused to take
-- each of them out of service (braked_at). A node that has recovered does not try to leave again, so it is soon absent.
CREATE OR REPLACE VIEW farrier.braked_nodes AS
SELECT n.id, max(d.at) AS braked_at
  FROM farrier.departing d
  JOIN farrier.nodes n ON n.id = d.node AND coalesce(n.site, '') = d.site AND n.status = 'active'
 WHERE d.held AND NOT EXISTS (SELECT FROM farrier.brakes_lifted l WHERE l.site = d.site)
 GROUP BY n.id;
