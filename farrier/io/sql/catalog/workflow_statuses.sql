-- Replaces the statuses of workflows and their properties.
WITH want AS (SELECT * FROM unnest($1::text[], $2::boolean[], $3::boolean[], $4::boolean[], $5::boolean[]) AS w (status, ended, succeeded, failed, at_work)),
     gone AS (DELETE FROM farrier.workflow_statuses s WHERE NOT EXISTS (SELECT FROM want w WHERE w.status = s.status))
INSERT INTO farrier.workflow_statuses (status, ended, succeeded, failed, at_work) SELECT status, ended, succeeded, failed, at_work FROM want
    ON CONFLICT (status) DO UPDATE SET ended = excluded.ended, succeeded = excluded.succeeded, failed = excluded.failed, at_work = excluded.at_work
