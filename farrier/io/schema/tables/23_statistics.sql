-- What ANALYZE keeps of the tables that a whole fleet changes. Queries find their rows by keys, so a quarter of the usual sample is enough,
-- and a condition compares a value in a document, never the whole. With the defaults, ANALYZE sorts the documents of 30,000 rows:
-- while all machines of a fleet enrol, that is a tenth of PostgreSQL's time, in pieces of a quarter of a second.
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN
        SELECT a.attrelid::regclass AS changed, a.attname AS name, CASE WHEN a.atttypid = 'jsonb'::regtype AND a.attnotnull THEN 0 ELSE 25 END AS target
          FROM pg_attribute a
         WHERE a.attrelid = ANY ('{farrier.nodes, farrier.node_agents, farrier.node_onboardings, farrier.node_observations,
                                   farrier.history, farrier.outcomes}'::regclass[]) AND a.attnum > 0
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER %I SET STATISTICS %s', each.changed, each.name, each.target);
    END LOOP;
    -- The largest target decides how many rows are read, and those of expressions in indexes count, too.
    ALTER INDEX farrier.nodes_shard ALTER 1 SET STATISTICS 25;
    ALTER INDEX farrier.nodes_in_service ALTER 1 SET STATISTICS 25;
END $$;
