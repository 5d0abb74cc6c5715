-- Returns the bootstrap token of a secret: prefix fbt_, the 64 digits of the secret, and a checksum of both.
-- farrier.model.machine.bootstrap.token returns the same text.
CREATE OR REPLACE FUNCTION farrier.bootstrap_token(secret text) RETURNS text LANGUAGE sql IMMUTABLE
    -- The digits are their own bytes. The server would not inline convert_to, because it is STABLE.
    RETURN 'fbt_' || secret || left(encode(sha256(('fbt_' || secret)::bytea), 'hex'), 8);
