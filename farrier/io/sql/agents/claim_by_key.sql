-- Claims the oldest queued task of the node whose agent has this key.
SELECT task, type, params, attempt, lease_token, lease_until FROM farrier.claim_by_key($1, $2, $3, $4)
