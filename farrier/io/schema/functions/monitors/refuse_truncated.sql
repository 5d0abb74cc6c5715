-- Counts and lists a group of alerts that a monitor sent without all its alerts. FR403 for a monitor without a grant. Called by servers of
-- the HTTP API, which then refuse the group.
CREATE OR REPLACE FUNCTION farrier.refuse_truncated(monitor text, of_group text, missing bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    granted monitors := prove_monitor(coalesce(monitor, ''));
BEGIN
    PERFORM note_refusal(granted.name, '', left(of_group, 128), '', 'truncated', format('%s alerts of the group are missing', missing));
    PERFORM count_refusals(granted.name, 1);
END $$;
