-- Records the fingerprint of the spec from which a kind was written.
UPDATE farrier.kinds SET fingerprint = $2 WHERE kind = $1 AND fingerprint IS DISTINCT FROM $2
