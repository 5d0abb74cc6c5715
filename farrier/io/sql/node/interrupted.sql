-- Returns nodes with a pending intent that interrupts a step that only reads. Skips an intent with the BMC address of
-- another node: the handler will reject it, and an interrupted verification would waste a login.
SELECT DISTINCT i.node_id AS id
  FROM farrier.intents i JOIN farrier.kind_actions a ON a.kind = 'node' AND a.action = i.action
 WHERE i.node_id = ANY ($1::bigint[]) AND i.status = 'pending' AND a.interrupts
   AND (i.action <> 'set_bmc' OR farrier.bmc_holder(i.params ->> 'address', i.node_id) IS NULL)
