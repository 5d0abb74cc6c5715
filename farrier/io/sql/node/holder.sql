-- Returns the node, other than $1, to which a machine with this serial, UUID, manufacturer and these MAC addresses belongs.
SELECT h.name, h.kind
  FROM farrier.identity_holder(
           jsonb_build_object('serial', $2::text, 'uuid', $3::text, 'manufacturer', $4::text, 'macs', to_jsonb($5::text[])), $1) h
