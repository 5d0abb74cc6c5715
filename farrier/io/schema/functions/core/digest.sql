-- The hash by which tokens and keys are stored and compared.
CREATE OR REPLACE FUNCTION farrier.digest(secret text) RETURNS bytea LANGUAGE sql IMMUTABLE
    RETURN sha256(convert_to(secret, 'UTF8'));
