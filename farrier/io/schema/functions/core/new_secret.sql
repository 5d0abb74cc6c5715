-- Returns a new secret: 244 random bits from the operating system, as 64 hexadecimal digits.
CREATE OR REPLACE FUNCTION farrier.new_secret() RETURNS text LANGUAGE sql VOLATILE
    RETURN replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
