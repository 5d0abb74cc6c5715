-- Returns the time within which a BMC may see at most login_cap failed logins.
CREATE OR REPLACE FUNCTION farrier.login_window() RETURNS interval
    LANGUAGE sql STABLE
    RETURN (farrier.read_constants()).login_window;
