-- After a reply to COMMIT was lost: which of these runs left their history behind, or had their row claimed anew.
SELECT r.id, s.id IS NOT NULL AS kept, s.outcome_key, s.reruns
  FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS r (id, version, token)
  LEFT JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id AND s.claim_token = $5
 WHERE s.id IS NOT NULL
    OR EXISTS (SELECT FROM farrier.history h
                WHERE h.kind = $1 AND h.id = r.id AND h.version = r.version AND h.claim_token = r.token)
