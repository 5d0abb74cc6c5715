-- Replaces the pairs of workflow status and node status.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS w (kind, workflow_status, node_status)),
     gone AS (DELETE FROM farrier.workflow_mapping m
               WHERE NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.workflow_status, w.node_status) = (m.kind, m.workflow_status, m.node_status)))
INSERT INTO farrier.workflow_mapping (kind, workflow_status, node_status) SELECT kind, workflow_status, node_status FROM want
    ON CONFLICT DO NOTHING
