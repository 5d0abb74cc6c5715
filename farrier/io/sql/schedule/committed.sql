-- After a reply to COMMIT was lost: which of these runs left their history behind, and when, or had their row claimed anew.
SELECT r.id, s.id IS NOT NULL AS kept, s.outcome_key, s.reruns, h.at
  FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS r (id, version, token)
  LEFT JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id AND s.claim_token = $5
  LEFT JOIN LATERAL (
       SELECT min(h.at) AS at FROM farrier.history h
        WHERE h.kind = $1 AND h.id = r.id AND h.version = r.version AND h.claim_token = r.token) h ON true
 WHERE s.id IS NOT NULL OR h.at IS NOT NULL
