-- Returns the time within which a BMC may see at most login_cap failed logins: setting login_window_seconds.
CREATE OR REPLACE FUNCTION farrier.login_window() RETURNS interval
    LANGUAGE sql STABLE
    RETURN make_interval(secs => farrier.setting('login_window_seconds')::double precision);
