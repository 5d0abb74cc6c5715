-- Returns the id of a resource, even if it has ended; null if there never was such a resource.
SELECT farrier.any_resource($1, $2)
