-- Returns nodes with a pending intent that interrupts a step that only reads. Skips an intent with the BMC address of
-- another node: the handler will reject it, and an interrupted verification would waste a login. While a node waits for the
-- effect of a power action, only an intent that is answered before this effect interrupts. Skips nodes that are held after a restore, because
-- they answer no intent.
SELECT DISTINCT i.node_id AS id
  FROM farrier.intents i
  JOIN farrier.nodes n ON n.id = i.node_id
  JOIN farrier.kind_actions a ON a.kind = 'node' AND a.action = i.action
  JOIN farrier.actions o ON o.action = i.action
 WHERE i.node_id = ANY ($1::bigint[]) AND i.status = 'pending'
   AND CASE WHEN n.bmc ? 'switching' THEN o.overtakes ELSE a.interrupts END
   AND NOT EXISTS (SELECT FROM farrier.restore_holds h WHERE h.kind = 'node' AND h.id = i.node_id AND h.lifted_at IS NULL)
   AND (i.action <> 'set_bmc' OR farrier.bmc_holder(i.params ->> 'address', i.node_id) IS NULL)
