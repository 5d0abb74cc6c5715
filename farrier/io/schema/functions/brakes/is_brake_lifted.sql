-- Returns whether an operator has lifted the brake of a site and the lift has not expired.
CREATE OR REPLACE FUNCTION farrier.is_brake_lifted(of_site text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN EXISTS (SELECT FROM farrier.brakes_lifted l WHERE l.site = of_site);
