-- Enqueues a new resource, and records the first state of each of its layers in history, with the intent and the
-- requester that validate_resource_intent has set. AFTER INSERT trigger on the table of every kind; the argument is the
-- kind.
CREATE OR REPLACE FUNCTION farrier.enqueue_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM enqueue(TG_ARGV[0], NEW.id);
    PERFORM record_beginning(TG_ARGV[0], to_jsonb(NEW),
        coalesce('intent ' || nullif(current_setting('farrier.created_for', true), ''), 'created'),
        'created', coalesce(nullif(current_setting('farrier.created_by', true), ''), session_user));
    RETURN NULL;
END $$;
