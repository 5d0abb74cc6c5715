-- Rejects the pending requests of a resource that leaves the schedule: no run follows that could decide on them. A later request
-- is enqueued, which keeps the row on the schedule, or fails because there is none. AFTER DELETE trigger on schedule.
CREATE OR REPLACE FUNCTION farrier.refuse_leftovers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE resource_intents i SET status = 'rejected', reason = format('this %s has ended', replace(OLD.kind, '_', ' ')), answered_at = farrier.now()
     WHERE i.kind = OLD.kind AND i.resource_id = OLD.id AND i.status = 'pending';
    RETURN NULL;
END $$;
