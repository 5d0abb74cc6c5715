-- Returns the details of a node that are columns of its row.
CREATE OR REPLACE FUNCTION farrier.columns_of(node farrier.nodes)
    RETURNS TABLE (site text, model text, rack text, labels jsonb, maas_id text, agentless boolean, auto_manage boolean)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT node.site, node.model, node.rack, node.labels, node.maas_id, node.agentless, node.auto_manage;
END;
