-- Returns how far apart two readings of a machine are that confirm what both say: setting confirmed_after_seconds.
CREATE OR REPLACE FUNCTION farrier.confirmed_after() RETURNS interval
    LANGUAGE sql STABLE
    RETURN make_interval(secs => farrier.setting('confirmed_after_seconds')::double precision);
