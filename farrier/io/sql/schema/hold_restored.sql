-- Holds every resource, because the database was restored from a backup. Returns the number of resources.
SELECT farrier.hold_restored()
