-- Returns resources of one kind with a pending intent that interrupts a step that only reads. Skips resources
-- that are held after a restore, because they answer no intent.
SELECT DISTINCT i.resource_id AS id
  FROM farrier.resource_intents i JOIN farrier.kind_actions a USING (kind, action)
 WHERE i.kind = 'of_kind' AND i.resource_id = ANY ($1::bigint[]) AND i.status = 'pending' AND a.interrupts
   AND NOT EXISTS (SELECT FROM farrier.restore_holds h WHERE h.kind = i.kind AND h.id = i.resource_id AND h.lifted_at IS NULL)
