-- Notifies channel farrier_wake of new wakes at COMMIT: `KIND:ID,ID,...`, or `KIND:*` for more than 300 resources. AFTER INSERT
-- trigger on wakes.
CREATE OR REPLACE FUNCTION farrier.notify_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM pg_notify('farrier_wake', n.kind || ':' || CASE WHEN n.many <= 300 THEN n.ids ELSE '*' END)
       FROM (SELECT d.kind, count(*) AS many, string_agg(d.resource::text, ',' ORDER BY d.resource) AS ids
               FROM (SELECT DISTINCT kind, resource FROM new_rows WHERE NOT quiet) d GROUP BY d.kind) n;
    RETURN NULL;
END $$;
