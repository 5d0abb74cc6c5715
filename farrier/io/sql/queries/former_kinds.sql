-- Returns those of the kinds $1 that have history. A removed kind keeps its history.
SELECT k.kind FROM unnest($1::text[]) k (kind) WHERE EXISTS (SELECT FROM farrier.history h WHERE h.kind = k.kind)
