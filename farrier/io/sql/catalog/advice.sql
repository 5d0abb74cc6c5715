-- Replaces the recommended actions of failures.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[]) AS w (failure, action)),
     gone AS (DELETE FROM farrier.advice a WHERE NOT EXISTS (SELECT FROM want w WHERE w.failure = a.failure))
INSERT INTO farrier.advice (failure, action) SELECT failure, action FROM want
    ON CONFLICT (failure) DO UPDATE SET action = excluded.action
