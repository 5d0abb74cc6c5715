-- The intents of resources of every kind. Intents of nodes have a table of their own, because other services use it.
CREATE OR REPLACE VIEW farrier.all_intents AS
SELECT 'node' AS kind, i.id, i.node_id AS resource_id, i.action, i.requested_by, i.status, i.created_at, i.reason, i.answered_at,
       i.node AS resource, i.params, i.idempotency_key
  FROM farrier.intents i
UNION ALL
SELECT i.kind, i.id, i.resource_id, i.action, i.requested_by, i.status, i.created_at, i.reason, i.answered_at,
       i.resource, i.params, i.idempotency_key
  FROM farrier.resource_intents i;
