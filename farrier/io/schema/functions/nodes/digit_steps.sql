-- Returns the differences between neighbouring digits of a text: 1 and -1 for counting, also from 9 or f to 0 and back.
CREATE OR REPLACE FUNCTION farrier.digit_steps(digits text) RETURNS SETOF integer
    LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT CASE WHEN p.pair IN ('90', 'f0') THEN 1
                WHEN p.pair IN ('09', '0f') THEN -1
                ELSE strpos(p.abc, right(p.pair, 1)) - strpos(p.abc, left(p.pair, 1)) END
      FROM (SELECT substr(digits, i, 2) AS pair, '0123456789abcdefghijklmnopqrstuvwxyz' AS abc
              FROM generate_series(1, length(digits) - 1) i) p;
END;
