-- After a reply to COMMIT was lost: which of these runs left their history behind.
SELECT r.id
  FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS r (id, version, token)
 WHERE EXISTS (SELECT FROM farrier.history h
                WHERE h.kind = $1 AND h.id = r.id AND h.version = r.version AND h.claim_token = r.token)
