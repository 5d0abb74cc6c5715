-- One row for each node that something keeps out of service: the causes of its quarantine, and the reasons in words. A cause that is
-- a condition has the name SOURCE/ID. Conditions of nodes that are not quarantined are included.
CREATE OR REPLACE VIEW farrier.node_quarantines AS
SELECT n.id AS node,
       concat_ws(', ', n.quarantine ->> 'cause', c.names) AS cause,
       concat_ws('; ', n.quarantine ->> 'reason', c.messages) AS reason
  FROM farrier.nodes n
 CROSS JOIN LATERAL (
       SELECT string_agg(x.source || '/' || x.id, ', ' ORDER BY x.since, x.source, x.id) AS names,
              string_agg(CASE x.message WHEN '' THEN x.id ELSE x.message END, '; ' ORDER BY x.since, x.source, x.id) AS messages
         FROM farrier.node_conditions x
        WHERE x.node = n.id AND x.effect = 'quarantine') c
 WHERE n.quarantine IS NOT NULL OR c.names IS NOT NULL;
