-- Returns the node, other than $1, to which a machine with this serial, UUID, manufacturer and these MAC addresses belongs.
SELECT h.name, h.kind FROM farrier.identity_holder($2, $3, $4, to_jsonb($5::text[]), $1) h
