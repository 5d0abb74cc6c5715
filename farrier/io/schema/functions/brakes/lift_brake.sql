-- Lets any number of nodes of a site leave service for the duration `lasts`. Site '' stands for the nodes without a
-- site. A further call replaces the duration; '0' ends the lift. FR400 for malformed arguments, FR409 if the brake is
-- not lifted and holds no node.
CREATE OR REPLACE FUNCTION farrier.lift_brake(site text, reason text, lasts interval DEFAULT '1 hour', requested_by text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    of_site text := coalesce(lift_brake.site, '');
BEGIN
    IF coalesce(reason, '') = '' OR length(reason) > 500 OR length(requested_by) > 255 THEN
        RAISE EXCEPTION 'the reason for lifting a brake must have 1 to 500 characters, and the name of the operator at most 255' USING ERRCODE = 'FR400';
    ELSIF lasts IS NULL OR lasts < interval '0' OR lasts > interval '24 hours' THEN
        RAISE EXCEPTION 'a brake can be lifted for at most 24 hours, not for %', coalesce(lasts::text, 'null') USING ERRCODE = 'FR400';
    ELSIF NOT EXISTS (SELECT FROM brakes_lifted l WHERE l.site = of_site) AND NOT EXISTS (SELECT FROM brakes_holding h WHERE h.site = of_site) THEN
        RAISE EXCEPTION 'the brake of site % holds no node', quote_literal(of_site)
            USING ERRCODE = 'FR409', HINT = 'Only a brake that holds nodes can be lifted.';
    END IF;
    INSERT INTO brake_lifts (site, until, reason, requested_by)
    VALUES (of_site, farrier.now() + lasts, lift_brake.reason, coalesce(lift_brake.requested_by, session_user));
END $$;
