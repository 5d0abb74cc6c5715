-- Returns resources of one kind with a pending intent that interrupts a step that only reads.
SELECT DISTINCT i.resource_id AS id
  FROM farrier.resource_intents i JOIN farrier.kind_actions a USING (kind, action)
 WHERE i.kind = 'of_kind' AND i.resource_id = ANY ($1::bigint[]) AND i.status = 'pending' AND a.interrupts
