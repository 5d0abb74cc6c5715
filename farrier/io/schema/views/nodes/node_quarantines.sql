-- One row for each node that conditions keep out of service: their names (SOURCE/ID), and their messages. Conditions of nodes that are
-- not quarantined are included.
CREATE OR REPLACE VIEW farrier.node_quarantines AS
SELECT c.node,
       string_agg(c.source || '/' || c.id, ', ' ORDER BY c.since, c.source, c.id) AS cause,
       string_agg(CASE c.message WHEN '' THEN c.id ELSE c.message END, '; ' ORDER BY c.since, c.source, c.id) AS reason
  FROM farrier.node_conditions c
 WHERE c.effect = 'quarantine'
 GROUP BY c.node;
