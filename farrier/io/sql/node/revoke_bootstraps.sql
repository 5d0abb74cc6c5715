-- Unused bootstrap tokens of these nodes are worthless from now on.
UPDATE farrier.bootstrap_tokens SET revoked_at = farrier.now()
 WHERE node_id = ANY ($1::bigint[]) AND used_at IS NULL AND revoked_at IS NULL
