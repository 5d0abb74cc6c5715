-- Returns machines that several nodes recorded while their numbers counted as placeholders: the names of the nodes, the holder first.
SELECT i.kind, array_agg(n.name ORDER BY i.holds DESC, n.id) AS nodes
  FROM farrier.node_identities i JOIN farrier.nodes n ON n.id = i.node_id
 WHERE (i.kind, i.value) IN (SELECT d.kind, d.value FROM farrier.node_identities d WHERE NOT (d.holds OR d.shared))
   AND NOT i.shared
 GROUP BY i.kind, i.value
 ORDER BY 2, 1
