-- Returns the status of an intent for a resource of a kind.
SELECT i.id AS intent, i.kind, i.resource_id AS resource, i.status, i.reason, i.answered_at
  FROM farrier.all_intents i WHERE i.kind = $1 AND i.id = $2
