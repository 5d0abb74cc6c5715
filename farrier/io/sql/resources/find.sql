-- The id of a resource, an ended one included; null if there never was one.
SELECT farrier.any_resource($1, $2)
