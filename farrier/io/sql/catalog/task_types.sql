-- Replaces the types of tasks.
WITH want AS (SELECT * FROM unnest($1::text[]) AS w (type)),
     gone AS (DELETE FROM farrier.task_types t WHERE NOT EXISTS (SELECT FROM want w WHERE w.type = t.type))
INSERT INTO farrier.task_types (type) SELECT type FROM want
    ON CONFLICT DO NOTHING
