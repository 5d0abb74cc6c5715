-- Returns the SHA-256 digest by which bootstrap tokens and agent keys are stored and compared.
CREATE OR REPLACE FUNCTION farrier.digest(secret text) RETURNS bytea LANGUAGE sql IMMUTABLE
    RETURN sha256(convert_to(secret, 'UTF8'));
