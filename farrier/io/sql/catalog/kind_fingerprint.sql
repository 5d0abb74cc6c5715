-- By which spec a kind was filled in.
UPDATE farrier.kinds SET fingerprint = $2 WHERE kind = $1 AND fingerprint IS DISTINCT FROM $2
