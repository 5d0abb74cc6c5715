-- Of these claims those that are ours no more: the row is claimed under another token, was given back, or is gone.
SELECT r.id
  FROM unnest($2::bigint[], $3::bigint[]) AS r (id, token)
  LEFT JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id
 WHERE s.claim_token IS DISTINCT FROM r.token
