-- Counts and lists a group of alerts of which some are missing.
SELECT farrier.refuse_truncated($1, $2, $3)
