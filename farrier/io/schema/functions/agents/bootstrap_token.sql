-- A bootstrap token: prefix, secret, and a checksum of both. `farrier.model.bootstrap` makes the same. Runs with the rights
-- of its caller, to whom `digest` is not granted.
CREATE OR REPLACE FUNCTION farrier.bootstrap_token(secret text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'fbt_' || secret || left(encode(sha256(convert_to('fbt_' || secret, 'UTF8')), 'hex'), 8);
