-- Whatever a handler forgot to answer: nobody runs any more who could. A request that comes later is a wake, which keeps
-- the row on the schedule, or finds none and is refused.
CREATE OR REPLACE FUNCTION farrier.refuse_leftovers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE resource_intents i SET status = 'rejected', reason = format('this %s has ended', replace(OLD.kind, '_', ' ')), answered_at = farrier.now()
     WHERE i.kind = OLD.kind AND i.resource_id = OLD.id AND i.status = 'pending';
    RETURN NULL;
END $$;
