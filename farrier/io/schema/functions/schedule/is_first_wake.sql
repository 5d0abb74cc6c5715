-- Returns whether the transaction has no wake request yet; the default of wake_requests.first. VOLATILE, so that it sees the rows
-- that the running INSERT has added before this one.
CREATE OR REPLACE FUNCTION farrier.is_first_wake() RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM wake_requests WHERE xact = pg_current_xact_id());
END $$;
