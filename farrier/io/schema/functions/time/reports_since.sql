-- Returns since when agents have been able to report: since the end of the last outage of the database or of all daemons,
-- as the pulse shows it. Without a recent pulse, an outage lasts until now: the first load after it may precede the first pulse.
CREATE OR REPLACE FUNCTION farrier.reports_since() RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT CASE WHEN farrier.now() - p.at > interval '10 seconds' THEN farrier.now() ELSE p.resumed_at END FROM farrier.pulse p);
