-- Returns the status of an intent.
SELECT i.id AS intent, i.node_id AS node, i.status, i.reason, i.answered_at FROM farrier.intents i WHERE i.id = $1
