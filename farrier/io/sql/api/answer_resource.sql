-- Returns the status of an intent for a resource.
SELECT i.id AS intent, i.kind, i.resource_id AS resource, i.status, i.reason, i.answered_at FROM farrier.resource_intents i WHERE i.id = $1
