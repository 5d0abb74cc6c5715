-- Commits finished runs of one kind, each whole or not at all: begin_commit locks the shards, then the kind's function, which replaces
-- `writer_of_kind`, writes the resources, then end_commit records the rest. One call, so that rows are locked only while the
-- server works.
WITH begun AS MATERIALIZED (
    SELECT b.* FROM farrier.begin_commit($1, $2, $3, $4, $5, $6, $7::jsonb, $8::jsonb) b
), written AS MATERIALIZED (
    SELECT array_agg(w.run) AS unwritten, array_agg(w.due_in) AS dues
      FROM begun b CROSS JOIN LATERAL writer_of_kind(b.held_changes) w
     WHERE b.held_changes <> '{}'
)
SELECT e.id, e.verdict, e.due_in, farrier.now() AS at
  FROM begun b CROSS JOIN written w
 CROSS JOIN LATERAL farrier.end_commit($1, $2, $6, b.held_runs, b.held_records, w.unwritten, w.dues) e
