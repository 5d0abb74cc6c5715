-- Puts a new resource on the schedule. Its first run is due at a random time within spread, so that a bulk load does not run at
-- once.
CREATE OR REPLACE FUNCTION farrier.schedule_new(kind text, id bigint, spread interval DEFAULT '30 seconds') RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO farrier.schedule (kind, id, due_at) VALUES ($1, $2, farrier.now() + random() * $3);
$$;
