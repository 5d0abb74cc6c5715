-- One page of the history of all nodes, by node and oldest first. No join: it would read all nodes before the page's.
SELECT row_to_json(x)::text
  FROM (
    SELECT h.id, h.version, h.layer, (SELECT n.name FROM farrier.nodes n WHERE n.id = h.id) AS name,
           h.from_value AS "from", h.to_value AS "to", h.at, h.seconds_in_source, h.cause, h.reason, h.source, h.controller
      FROM farrier.history h
     WHERE h.kind = 'node'
       AND (h.id, h.version, h.layer) > ($1::bigint, $2::bigint, $3::text)
       AND (cardinality($4::text[]) = 0 OR h.layer = ANY ($4))
       AND ($5::timestamptz IS NULL OR h.at >= $5)
       AND ($6::interval IS NULL OR h.at >= farrier.now() - $6)
     ORDER BY h.id, h.version, h.layer
     LIMIT $7
  ) x
