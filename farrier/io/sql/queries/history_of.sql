-- One page of the history of one node, newest first.
SELECT row_to_json(x)::text
  FROM (
    SELECT h.id, h.version, h.layer, (SELECT n.name FROM farrier.nodes n WHERE n.id = h.id) AS name,
           h.from_value AS "from", h.to_value AS "to", h.at, h.seconds_in_source, h.cause, h.reason, h.source, h.controller
      FROM farrier.history h
     WHERE h.kind = 'node' AND h.id = $1
       AND (h.version, h.layer) < ($2::bigint, $3::text)
       AND (cardinality($4::text[]) = 0 OR h.layer = ANY ($4))
       AND ($5::timestamptz IS NULL OR h.at >= $5)
       AND ($6::interval IS NULL OR h.at >= farrier.now() - $6)
     ORDER BY h.version DESC, h.layer DESC
     LIMIT $7
  ) x
