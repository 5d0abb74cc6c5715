-- Returns whether an operator has lifted the brake of a site and the lift has not expired.
CREATE OR REPLACE FUNCTION farrier.is_brake_lifted(of_site text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN coalesce((SELECT l.until > farrier.now() FROM farrier.brake_lifts l WHERE l.site = of_site ORDER BY l.id DESC LIMIT 1), false);
