-- Checks a change of a layer; see check_edge. AFTER UPDATE trigger on tables whose writers set the time of the change themselves; the
-- arguments are the kind, the layer and its column. For each row, because a statement trigger would join old rows with new ones, which
-- is planned for a handful of rows and takes a quarter of a million comparisons for a batch.
CREATE OR REPLACE FUNCTION farrier.guard_layer() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    after jsonb := to_jsonb(NEW);
BEGIN
    PERFORM farrier.check_edge(TG_ARGV[0], TG_ARGV[1], coalesce(after ->> 'name', after ->> 'node_id'),
                               to_jsonb(OLD) ->> TG_ARGV[2], after ->> TG_ARGV[2]);
    RETURN NULL;
END $$;
