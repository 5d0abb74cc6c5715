-- Makes the rows of a table of the model equal to the rows of this program's model.
SELECT farrier.replace_rows($1::text::regclass, $2::jsonb, $3)
