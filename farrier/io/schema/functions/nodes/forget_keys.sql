-- Removes data that gives access to the machine of a deleted node or identifies it: MAC addresses, the agent, bootstrap tokens, and
-- texts and parameters that quote them. Deferred trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.forget_keys() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_macs m WHERE m.node_id = NEW.id;
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    UPDATE bootstrap_tokens t SET revoked_at = farrier.now() WHERE t.node_id = NEW.id AND t.used_at IS NULL AND t.revoked_at IS NULL;
    -- Failures, reasons and results quote serial numbers and addresses.
    UPDATE intents i SET params = i.params - '{address,credential,macs,labels}'::text[], reason = NULL
     WHERE i.node_id = NEW.id AND (i.params ?| '{address,credential,macs,labels}' OR i.reason IS NOT NULL);
    UPDATE node_onboardings o SET failure_detail = NULL WHERE o.node_id = NEW.id AND o.failure_detail IS NOT NULL;
    UPDATE node_decommissions d SET failure_detail = NULL WHERE d.node_id = NEW.id AND d.failure_detail IS NOT NULL;
    DELETE FROM machine_disks d WHERE d.node_id = NEW.id;
    UPDATE node_decommissions d SET memo = d.memo - '{evidence,judged}'::text[] WHERE d.node_id = NEW.id AND d.memo ?| '{evidence,judged}';
    -- Removes the results and the evidence that agents and workers reported. A task that an agent is just finishing has no visible
    -- result, and this trigger does not wait for it.
    UPDATE node_tasks t SET result = NULL, evidence = NULL
     WHERE t.node_id = NEW.id AND t.status IN ('succeeded', 'failed') AND (t.result IS NOT NULL OR t.evidence IS NOT NULL);
    RETURN NULL;
END $$;
