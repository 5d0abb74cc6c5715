-- Commits finished runs of one kind, each whole or not at all: begin_commit locks the shards, then the kind's own SELECT, which
-- replaces `of_kind`, writes the resources, then end_commit records the rest. One call, so that rows are locked only while the
-- server works. The arguments from $24 on belong to the kind.
WITH begun AS MATERIALIZED (
    SELECT farrier.begin_commit($1, $2, $3, $4, $5, $6, $7) AS lost
), written AS MATERIALIZED (
    SELECT array_agg(w.run) AS unwritten, array_agg(w.due_in) AS dues FROM begun b CROSS JOIN LATERAL (of_kind) w
)
SELECT e.id, e.verdict, e.due_in, farrier.now() AS at
  FROM begun b CROSS JOIN written w
 CROSS JOIN LATERAL farrier.end_commit($1, $2, b.lost, w.unwritten, w.dues,
                                       $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23) e
