-- Refuses a malformed bootstrap token (FR400) before any token is looked up; accepts null. The error does not repeat the text,
-- which may be a secret.
CREATE OR REPLACE FUNCTION farrier.check_bootstrap_token(token text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF token !~ E'\\A(fbt_)[0-9a-f]{72}\\Z' OR token <> bootstrap_token(substr(token, 5, 64)) THEN
        RAISE EXCEPTION 'this is not a bootstrap token: expected fbt_ and 72 hexadecimal digits whose last 8 are their checksum, got % characters',
            char_length(token) USING ERRCODE = 'FR400', HINT = 'The token is truncated, mistyped or from another system. farrier.issue_bootstrap issues a new one.';
    END IF;
END $$;
