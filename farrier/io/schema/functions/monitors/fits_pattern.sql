-- Returns whether a text fits one of these patterns, in which * stands for any text and ? for one character.
CREATE OR REPLACE FUNCTION farrier.fits_pattern(value text, patterns text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT bool_or(value LIKE translate(regexp_replace(p, E'([\\\\%_])', E'\\\\\\1', 'g'), '*?', '%_')) FROM unnest(patterns) p
$$;
