-- Locks the tables and views of farrier, and tables with triggers of farrier, before the first of them is changed. If the migration
-- locked them one by one, it would hold some tables while it waits for other tables, and the server would cancel
-- clients to resolve deadlocks. The tables with which transactions begin are locked first, in the order in which
-- transactions use them: a transaction that has locked its first table finds all other tables free, and ends. The
-- migrator's own table is not locked, because other migrators wait there for this one. Objects of other users,
-- including views, are not locked either.
DO $$
BEGIN
    EXECUTE (
        SELECT format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE',
                      string_agg(c.oid::regclass::text, ', ' ORDER BY first.place, c.oid))
          FROM pg_class c
          LEFT JOIN unnest('{intents,resource_intents,bootstrap_tokens,workers,nodes,wakes,shards}'::text[])
                    WITH ORDINALITY AS first (name, place)
            ON c.relnamespace = 'farrier'::regnamespace AND c.relname = first.name
         WHERE c.oid <> 'farrier.migrator'::regclass AND pg_has_role(c.relowner, 'USAGE')
           AND CASE c.relkind
                   WHEN 'v' THEN c.relnamespace = 'farrier'::regnamespace
                                 AND EXISTS (SELECT FROM farrier.schema_objects o WHERE o.kind = 'view' AND o.name = c.relname)
                   WHEN 'r' THEN c.relnamespace = 'farrier'::regnamespace
                                 OR EXISTS (SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                                             WHERE t.tgrelid = c.oid AND p.pronamespace = 'farrier'::regnamespace)
               END);
END
$$
