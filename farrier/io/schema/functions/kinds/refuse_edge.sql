-- Refuses a change of a layer (FR409) for which is_edge is false. AFTER UPDATE trigger on tables whose writers set the time of the
-- change themselves; the arguments are the kind, the layer and its column. The trigger's condition calls is_edge, so that a change
-- along an edge does not call the trigger: converting both rows to JSON would cost more than the update.
CREATE OR REPLACE FUNCTION farrier.refuse_edge() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    after jsonb := to_jsonb(NEW);
BEGIN
    PERFORM farrier.check_edge(TG_ARGV[0], TG_ARGV[1], coalesce(after ->> 'name', after ->> 'node_id'),
                               to_jsonb(OLD) ->> TG_ARGV[2], after ->> TG_ARGV[2]);
    RETURN NULL;
END $$;
