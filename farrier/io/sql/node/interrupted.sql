-- Nodes with a pending intent for which a step that only reads is cut short. Not for BMC details that are another node's:
-- they will be refused, and a verification that was cut short spends a login.
SELECT DISTINCT i.node_id AS id
  FROM farrier.intents i JOIN farrier.actions a USING (action)
 WHERE i.node_id = ANY ($1::bigint[]) AND i.status = 'pending' AND a.interrupts
   AND (i.action <> 'set_bmc' OR farrier.bmc_holder(i.params ->> 'address', i.node_id) IS NULL)
