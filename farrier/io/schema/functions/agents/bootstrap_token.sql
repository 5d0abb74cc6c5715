-- Returns the bootstrap token of a secret: prefix fbt_, the 64 digits of the secret, and a checksum of both.
-- farrier.model.machine.bootstrap.token returns the same text. Computes SHA-256 itself because its caller may not call digest.
CREATE OR REPLACE FUNCTION farrier.bootstrap_token(secret text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'fbt_' || secret || left(encode(sha256(convert_to('fbt_' || secret, 'UTF8')), 'hex'), 8);
